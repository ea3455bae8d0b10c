package wire

import "fmt"

// Version is a protocol version packed into 30 bits: major, minor and patch of 10
// bits each. Pre-release tags are not part of it.
type Version uint32

// The versions galgo speaks. A client is accepted from VersionMin on, as long as
// its major and minor are not above those of VersionCurrent; what it is told when
// refused is VersionMin and VersionCurrent.
const (
	VersionCurrent Version = 11 << versionPatchBits // 0.11.0
	VersionMin     Version = VersionCurrent &^ versionPatchMask

	versionPatchBits = 10
	versionPatchMask = 1<<versionPatchBits - 1
)

// PackVersion packs three numbers of 0..1023.
func PackVersion(major, minor, patch uint32) Version {
	if major > versionPatchMask || minor > versionPatchMask || patch > versionPatchMask {
		panic(fmt.Sprintf("wire: version %d.%d.%d has a part above %d", major, minor, patch, versionPatchMask))
	}
	return Version(major<<20 | minor<<10 | patch)
}

// Accepted reports whether a client of version v may sign in.
func (v Version) Accepted() bool {
	return v >= VersionMin && v>>versionPatchBits <= VersionCurrent>>versionPatchBits
}

// String is the version in digits and dots.
func (v Version) String() string {
	return fmt.Sprintf("%d.%d.%d", v>>20, v>>10&versionPatchMask, v&versionPatchMask)
}
