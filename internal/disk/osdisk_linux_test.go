package disk_test

import (
	"os"
	"syscall"
	"testing"
)

// allocated returns the bytes that a file takes on its filesystem.
func allocated(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}
