package cli

import (
	"context"

	"galgo/client"
)

func statsCommand() *command {
	return &command{
		use: "stats", short: "Show the numbers of a server", args: exactly(0), connects: true,
		run: func(ctx context.Context, e *env, _ []string) error {
			return e.with(ctx, func(ctx context.Context, c *client.Client) error {
				s, err := c.Stats(ctx)
				if err != nil {
					return err
				}
				return e.print(statsOf(s), statsTable(s))
			})
		},
	}
}

type stats struct {
	ServerVersion   string  `json:"server_version"`
	Hostname        string  `json:"hostname"`
	OSName          string  `json:"os_name"`
	OSVersion       string  `json:"os_version"`
	KernelVersion   string  `json:"kernel_version"`
	ProcessID       uint32  `json:"process_id"`
	StartTime       string  `json:"start_time"`
	RunTimeMicros   uint64  `json:"run_time_us"`
	Threads         uint32  `json:"threads"`
	CPUPercent      float32 `json:"cpu_usage_percent"`
	TotalCPUPercent float32 `json:"total_cpu_usage_percent"`
	Memory          uint64  `json:"memory_usage_bytes"`
	TotalMemory     uint64  `json:"total_memory_bytes"`
	AvailableMemory uint64  `json:"available_memory_bytes"`
	ReadBytes       uint64  `json:"read_bytes"`
	WrittenBytes    uint64  `json:"written_bytes"`
	FreeDisk        uint64  `json:"free_disk_bytes"`
	TotalDisk       uint64  `json:"total_disk_bytes"`
	Clients         uint32  `json:"clients"`
	ConsumerGroups  uint32  `json:"consumer_groups"`
	Streams         uint32  `json:"streams"`
	Topics          uint32  `json:"topics"`
	Partitions      uint32  `json:"partitions"`
	Segments        uint32  `json:"segments"`
	Messages        uint64  `json:"messages"`
	MessagesSize    uint64  `json:"messages_size_bytes"`
}

func statsOf(s client.Stats) stats {
	return stats{
		ServerVersion: s.ServerVersion, Hostname: s.Hostname, OSName: s.OSName, OSVersion: s.OSVersion, KernelVersion: s.KernelVersion,
		ProcessID: s.ProcessID, StartTime: timeOf(s.StartTime), RunTimeMicros: s.RunTime, Threads: s.ThreadsCount,
		CPUPercent: s.CPUUsage, TotalCPUPercent: s.TotalCPUUsage,
		Memory: s.MemoryUsage, TotalMemory: s.TotalMemory, AvailableMemory: s.AvailableMemory,
		ReadBytes: s.ReadBytes, WrittenBytes: s.WrittenBytes, FreeDisk: s.FreeDiskSpace, TotalDisk: s.TotalDiskSpace,
		Clients: s.ClientsCount, ConsumerGroups: s.ConsumerGroupsCount,
		Streams: s.StreamsCount, Topics: s.TopicsCount, Partitions: s.PartitionsCount, Segments: s.SegmentsCount,
		Messages: s.MessagesCount, MessagesSize: s.MessagesSize,
	}
}

func statsTable(s client.Stats) table {
	t := table{{"Property", "Value"}}
	t.add("Server version", s.ServerVersion)
	t.add("Hostname", s.Hostname)
	t.add("OS", s.OSName+" "+s.OSVersion)
	t.add("Kernel", s.KernelVersion)
	t.add("Process ID", s.ProcessID)
	t.add("Started", timeOf(s.StartTime))
	t.add("Run time", durationOf(s.RunTime))
	t.add("Threads", s.ThreadsCount)
	t.add("CPU usage (%)", s.CPUUsage)
	t.add("CPU usage of the machine (%)", s.TotalCPUUsage)
	t.add("Memory usage (B)", s.MemoryUsage)
	t.add("Memory of the machine (B)", s.TotalMemory)
	t.add("Memory available (B)", s.AvailableMemory)
	t.add("Read (B)", s.ReadBytes)
	t.add("Written (B)", s.WrittenBytes)
	t.add("Disk free (B)", s.FreeDiskSpace)
	t.add("Disk (B)", s.TotalDiskSpace)
	t.add("Clients", s.ClientsCount)
	t.add("Consumer groups", s.ConsumerGroupsCount)
	t.add("Streams", s.StreamsCount)
	t.add("Topics", s.TopicsCount)
	t.add("Partitions", s.PartitionsCount)
	t.add("Segments", s.SegmentsCount)
	t.add("Messages", s.MessagesCount)
	t.add("Size of messages (B)", s.MessagesSize)
	return t
}
