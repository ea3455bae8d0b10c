package wire

import "strconv"

// Operation is the byte of a header that says how a request is routed and
// replicated.
type Operation uint8

// The operations. Those of 64..127 are internal: clients may not send them, but
// meet three of them in replies.
const (
	OperationReserved      Operation = 0
	OperationRegister      Operation = 1
	OperationNonReplicated Operation = 2 // the command code is in the header
	OperationLogout        Operation = 3

	OperationCreateTopicWithAssignments      Operation = 64
	OperationCreatePartitionsWithAssignments Operation = 65
	OperationRemoveConsumerGroupMember       Operation = 66
	OperationCompleteGroupRevocation         Operation = 67
	OperationTruncatePartition               Operation = 68

	OperationCreateStream        Operation = 128
	OperationUpdateStream        Operation = 129
	OperationDeleteStream        Operation = 130
	OperationPurgeStream         Operation = 131
	OperationCreateTopic         Operation = 132
	OperationUpdateTopic         Operation = 133
	OperationDeleteTopic         Operation = 134
	OperationPurgeTopic          Operation = 135
	OperationCreatePartitions    Operation = 136
	OperationDeletePartitions    Operation = 137
	OperationDeleteSegments      Operation = 138
	OperationCreateConsumerGroup Operation = 139
	OperationDeleteConsumerGroup Operation = 140
	OperationCreateUser          Operation = 141
	OperationUpdateUser          Operation = 142
	OperationDeleteUser          Operation = 143
	OperationChangePassword      Operation = 144
	OperationUpdatePermissions   Operation = 145
	OperationCreateToken         Operation = 146
	OperationDeleteToken         Operation = 147
	OperationJoinConsumerGroup   Operation = 148
	OperationLeaveConsumerGroup  Operation = 149

	OperationSendMessages         Operation = 160
	OperationStoreConsumerOffset  Operation = 161
	OperationDeleteConsumerOffset Operation = 162
)

// Internal operations are 64..127.
const (
	internalFirst Operation = 64
	internalLast  Operation = 127
)

// Known reports whether the protocol defines the operation. 0 is not an operation.
func (o Operation) Known() bool {
	switch {
	case o >= OperationRegister && o <= OperationLogout,
		o >= OperationCreateTopicWithAssignments && o <= OperationTruncatePartition,
		o >= OperationCreateStream && o <= OperationLeaveConsumerGroup,
		o >= OperationSendMessages && o <= OperationDeleteConsumerOffset:
		return true
	}
	return false
}

// IsInternal reports whether clients may not send the operation.
func (o Operation) IsInternal() bool { return o >= internalFirst && o <= internalLast }

// IsMetadata reports whether a client sends the operation to the metadata group:
// 128..149. Register and Logout go there too, by their own procedures.
func (o Operation) IsMetadata() bool {
	return o >= OperationCreateStream && o <= OperationLeaveConsumerGroup
}

// IsPartition reports whether a client sends the operation to a partition's group.
func (o Operation) IsPartition() bool {
	return o >= OperationSendMessages && o <= OperationDeleteConsumerOffset
}

// NeedsSession reports whether a request must carry a session and a number above 0.
func (o Operation) NeedsSession() bool {
	return o != OperationRegister && o != OperationNonReplicated
}

// ResultFramed reports whether a reply of this operation leads its body with a
// result section. OperationRegister does when the body is not empty, which is
// always so for galgo; DeleteSegments does not, but a reply to it carries
// OperationTruncatePartition, which does.
func (o Operation) ResultFramed() bool {
	switch {
	case o == OperationRegister,
		o >= OperationCreateTopicWithAssignments && o <= OperationTruncatePartition,
		o == OperationStoreConsumerOffset, o == OperationDeleteConsumerOffset:
		return true
	case o == OperationDeleteSegments:
		return false
	}
	return o.IsMetadata()
}

// OperationInReply is the operation of a reply to a request that was not denied by
// status: three are told under the operation they are replicated as.
func OperationInReply(request Operation) Operation {
	switch request {
	case OperationCreateTopic:
		return OperationCreateTopicWithAssignments
	case OperationCreatePartitions:
		return OperationCreatePartitionsWithAssignments
	case OperationDeleteSegments:
		return OperationTruncatePartition
	}
	return request
}

// String is the name of the command behind the operation, or its number.
func (o Operation) String() string {
	switch o {
	case OperationRegister:
		return "register"
	case OperationNonReplicated:
		return "non_replicated"
	case OperationLogout:
		return "logout"
	}
	if c, ok := o.Command(); ok {
		return c.String()
	}
	return "operation " + strconv.Itoa(int(o))
}
