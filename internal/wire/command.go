package wire

import (
	"cmp"
	"slices"
	"strconv"
)

// Command is the code of an API call. It travels only with OperationNonReplicated;
// elsewhere the operation says as much.
type Command uint32

// The commands.
const (
	CommandPing                   Command = 1
	CommandGetStats               Command = 10
	CommandGetSnapshot            Command = 11
	CommandGetClusterMetadata     Command = 12
	CommandDescribeOptions        Command = 13
	CommandGetMe                  Command = 20
	CommandGetClient              Command = 21
	CommandGetClients             Command = 22
	CommandGetUser                Command = 31
	CommandGetUsers               Command = 32
	CommandCreateUser             Command = 33
	CommandDeleteUser             Command = 34
	CommandUpdateUser             Command = 35
	CommandUpdatePermissions      Command = 36
	CommandChangePassword         Command = 37
	CommandLegacyLogin            Command = 38 // refused: eviction 15
	CommandLogout                 Command = 39
	CommandLoginRegister          Command = 40
	CommandGetTokens              Command = 41
	CommandCreateToken            Command = 42
	CommandDeleteToken            Command = 43
	CommandLegacyTokenLogin       Command = 44 // refused: eviction 15
	CommandLoginRegisterWithToken Command = 45
	CommandPollMessages           Command = 100
	CommandSendMessages           Command = 101
	CommandFlushUnsavedBuffer     Command = 102 // always refused: code 5
	CommandGetConsumerOffset      Command = 120
	CommandStoreConsumerOffset    Command = 121
	CommandDeleteConsumerOffset   Command = 122
	CommandGetStream              Command = 200
	CommandGetStreams             Command = 201
	CommandCreateStream           Command = 202
	CommandDeleteStream           Command = 203
	CommandUpdateStream           Command = 204
	CommandPurgeStream            Command = 205
	CommandGetTopic               Command = 300
	CommandGetTopics              Command = 301
	CommandCreateTopic            Command = 302
	CommandDeleteTopic            Command = 303
	CommandUpdateTopic            Command = 304
	CommandPurgeTopic             Command = 305
	CommandCreatePartitions       Command = 402
	CommandDeletePartitions       Command = 403
	CommandDeleteSegments         Command = 503
	CommandGetConsumerGroup       Command = 600
	CommandGetConsumerGroups      Command = 601
	CommandCreateConsumerGroup    Command = 602
	CommandDeleteConsumerGroup    Command = 603
	CommandJoinConsumerGroup      Command = 604
	CommandLeaveConsumerGroup     Command = 605
	CommandSyncConsumerGroup      Command = 606

	// Galgo's own, which stock clients do not know.
	CommandGetGroups Command = 9001 // of the node that is asked
	CommandStepDown  Command = 9002 // what that node leads
)

// Plane says who orders and answers a command.
type Plane uint8

// The planes.
const (
	PlaneNone      Plane = iota // refused: a legacy login, or not a command
	PlaneLocal                  // the connected node, from its committed state
	PlaneSession                // register and logout
	PlaneMetadata               // the metadata group
	PlanePartition              // the group of a partition
)

type commandInfo struct {
	command   Command
	name      string
	operation Operation // of a request
	plane     Plane
}

// commandTable is sorted by command.
var commandTable = []commandInfo{
	{CommandPing, "ping", OperationNonReplicated, PlaneLocal},
	{CommandGetStats, "stats", OperationNonReplicated, PlaneLocal},
	{CommandGetSnapshot, "snapshot", OperationNonReplicated, PlaneLocal},
	{CommandGetClusterMetadata, "cluster.metadata", OperationNonReplicated, PlaneLocal},
	{CommandDescribeOptions, "options.describe", OperationNonReplicated, PlaneLocal},
	{CommandGetMe, "me", OperationNonReplicated, PlaneLocal},
	{CommandGetClient, "client.get", OperationNonReplicated, PlaneLocal},
	{CommandGetClients, "client.list", OperationNonReplicated, PlaneLocal},
	{CommandGetUser, "user.get", OperationNonReplicated, PlaneLocal},
	{CommandGetUsers, "user.list", OperationNonReplicated, PlaneLocal},
	{CommandCreateUser, "user.create", OperationCreateUser, PlaneMetadata},
	{CommandDeleteUser, "user.delete", OperationDeleteUser, PlaneMetadata},
	{CommandUpdateUser, "user.update", OperationUpdateUser, PlaneMetadata},
	{CommandUpdatePermissions, "user.permissions", OperationUpdatePermissions, PlaneMetadata},
	{CommandChangePassword, "user.password", OperationChangePassword, PlaneMetadata},
	{CommandLegacyLogin, "user.login", OperationNonReplicated, PlaneNone},
	{CommandLogout, "user.logout", OperationLogout, PlaneSession},
	{CommandLoginRegister, "user.login_register", OperationRegister, PlaneSession},
	{CommandGetTokens, "personal_access_token.list", OperationNonReplicated, PlaneLocal},
	{CommandCreateToken, "personal_access_token.create", OperationCreateToken, PlaneMetadata},
	{CommandDeleteToken, "personal_access_token.delete", OperationDeleteToken, PlaneMetadata},
	{CommandLegacyTokenLogin, "personal_access_token.login", OperationNonReplicated, PlaneNone},
	{CommandLoginRegisterWithToken, "user.login_register_with_pat", OperationRegister, PlaneSession},
	{CommandPollMessages, "message.poll", OperationNonReplicated, PlaneLocal},
	{CommandSendMessages, "message.send", OperationSendMessages, PlanePartition},
	{CommandFlushUnsavedBuffer, "message.flush_unsaved_buffer", OperationNonReplicated, PlaneLocal},
	{CommandGetConsumerOffset, "consumer_offset.get", OperationNonReplicated, PlaneLocal},
	{CommandStoreConsumerOffset, "consumer_offset.store", OperationStoreConsumerOffset, PlanePartition},
	{CommandDeleteConsumerOffset, "consumer_offset.delete", OperationDeleteConsumerOffset, PlanePartition},
	{CommandGetStream, "stream.get", OperationNonReplicated, PlaneLocal},
	{CommandGetStreams, "stream.list", OperationNonReplicated, PlaneLocal},
	{CommandCreateStream, "stream.create", OperationCreateStream, PlaneMetadata},
	{CommandDeleteStream, "stream.delete", OperationDeleteStream, PlaneMetadata},
	{CommandUpdateStream, "stream.update", OperationUpdateStream, PlaneMetadata},
	{CommandPurgeStream, "stream.purge", OperationPurgeStream, PlaneMetadata},
	{CommandGetTopic, "topic.get", OperationNonReplicated, PlaneLocal},
	{CommandGetTopics, "topic.list", OperationNonReplicated, PlaneLocal},
	{CommandCreateTopic, "topic.create", OperationCreateTopic, PlaneMetadata},
	{CommandDeleteTopic, "topic.delete", OperationDeleteTopic, PlaneMetadata},
	{CommandUpdateTopic, "topic.update", OperationUpdateTopic, PlaneMetadata},
	{CommandPurgeTopic, "topic.purge", OperationPurgeTopic, PlaneMetadata},
	{CommandCreatePartitions, "partition.create", OperationCreatePartitions, PlaneMetadata},
	{CommandDeletePartitions, "partition.delete", OperationDeletePartitions, PlaneMetadata},
	{CommandDeleteSegments, "segment.delete", OperationDeleteSegments, PlaneMetadata},
	{CommandGetConsumerGroup, "consumer_group.get", OperationNonReplicated, PlaneLocal},
	{CommandGetConsumerGroups, "consumer_group.list", OperationNonReplicated, PlaneLocal},
	{CommandCreateConsumerGroup, "consumer_group.create", OperationCreateConsumerGroup, PlaneMetadata},
	{CommandDeleteConsumerGroup, "consumer_group.delete", OperationDeleteConsumerGroup, PlaneMetadata},
	{CommandJoinConsumerGroup, "consumer_group.join", OperationJoinConsumerGroup, PlaneMetadata},
	{CommandLeaveConsumerGroup, "consumer_group.leave", OperationLeaveConsumerGroup, PlaneMetadata},
	{CommandSyncConsumerGroup, "consumer_group.sync", OperationNonReplicated, PlaneLocal},
	{CommandGetGroups, "cluster.groups", OperationNonReplicated, PlaneLocal},
	{CommandStepDown, "cluster.step_down", OperationNonReplicated, PlaneLocal},
}

func (c Command) info() (commandInfo, bool) {
	i, ok := slices.BinarySearchFunc(commandTable, c, func(e commandInfo, c Command) int { return cmp.Compare(e.command, c) })
	if !ok {
		return commandInfo{}, false
	}
	return commandTable[i], true
}

// Known reports whether the protocol defines the command.
func (c Command) Known() bool {
	_, ok := c.info()
	return ok
}

// Operation is the operation under which a client sends the command: the
// non-replicated one for a command the table does not know, since the server
// decides about those.
func (c Command) Operation() Operation {
	if info, ok := c.info(); ok {
		return info.operation
	}
	return OperationNonReplicated
}

// Plane says who answers the command.
func (c Command) Plane() Plane {
	info, _ := c.info()
	return info.plane
}

// String is the name of the command, or its number.
func (c Command) String() string {
	if info, ok := c.info(); ok {
		return info.name
	}
	return "command " + strconv.FormatUint(uint64(c), 10)
}

// Command is the command that a client sends under o. It is not known, and ok
// false, for OperationNonReplicated, whose header tells; of the two sign-ins
// OperationRegister yields CommandLoginRegister.
func (o Operation) Command() (c Command, ok bool) {
	if o == OperationNonReplicated {
		return 0, false
	}
	for i := range commandTable {
		if commandTable[i].operation == o {
			return commandTable[i].command, true
		}
	}
	return 0, false
}
