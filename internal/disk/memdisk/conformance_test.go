package memdisk_test

import (
	"testing"

	"galgo/internal/disk"
	"galgo/internal/disk/disktest"
	"galgo/internal/disk/memdisk"
)

func TestConformance(t *testing.T) {
	disktest.Run(t, func(t *testing.T) disk.Disk { return memdisk.New(memdisk.Options{}) })
}
