package tidy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// row says what a package may import outside its tests.
type row struct {
	internal []string // packages of galgo, "." for the root
	external []string // modules of others
	why      string
}

// Modules of others, each with its job.
const (
	xxh3   = "github.com/zeebo/xxh3"             // identity and checksums
	btree  = "github.com/tidwall/btree"          // maps that are cheap to copy
	toml   = "github.com/BurntSushi/toml"        // configuration files
	cobra  = "github.com/spf13/cobra"            // commands and flags
	pflag  = "github.com/spf13/pflag"            // cobra's flags
	xsys   = "golang.org/x/sys"                  // system calls
	xsync  = "golang.org/x/sync"                 // errgroup, semaphore
	xcrypt = "golang.org/x/crypto"               // argon2id
	quicgo = "github.com/quic-go/quic-go"        // QUIC
	wsock  = "github.com/coder/websocket"        // WebSocket
	porcu  = "github.com/anishathalye/porcupine" // linearizability, of histories in the simulator
)

// table is the direction of imports: what decides knows nobody, the node knows
// everybody. A package without a row has that of the nearest directory above it,
// and may import its relatives there (disk/memdisk may import disk).
var table = map[string]row{
	".":             {why: "the vocabulary: values only, so that everybody can speak it"},
	"internal/wire": {internal: []string{"."}, external: []string{xxh3}, why: "the client protocol knows words and bytes, not who sends them; its batch checksum is XXH3"},
	"internal/vsr":  {external: []string{xxh3}, why: "the core is pure and knows neither requests nor files; the identity of a prepare is XXH3"},
	"internal/metadata": {internal: []string{".", "internal/wire"}, external: []string{btree},
		why: "a machine knows requests and its state; snapshots are taken of copy-on-write trees"},
	"internal/partition": {internal: []string{".", "internal/cipher", "internal/wire", "internal/disk"}, external: []string{xxh3},
		why: "a machine knows requests and its state, which here is files behind the disk seam, sealed or not"},
	"internal/cipher": {why: "keys and bytes, and no file: whoever seals says what the bytes are about"},
	"internal/disk":   {external: []string{xsys}, why: "the seam to files is below everything"},
	"internal/wal": {internal: []string{"internal/cipher", "internal/disk", "internal/vsr"}, external: []string{xxh3},
		why: "a log writes to the disk seam; it knows the prepare header because that is one format, known in one place"},
	"internal/superblock": {internal: []string{"internal/disk"}, external: []string{xxh3}, why: "a store of one record on the disk seam"},
	"internal/snapshot":   {internal: []string{"internal/cipher", "internal/disk"}, external: []string{xxh3}, why: "checkpoint files are bytes to it, whoever made them"},
	"internal/config":     {external: []string{toml}, why: "settings are plain values; whoever needs one is handed it"},
	"internal/auth":       {internal: []string{".", "internal/wire"}, external: []string{xcrypt}, why: "hashes and rules, without sessions or sockets"},
	"internal/peer":       {internal: []string{"internal/vsr"}, external: []string{xxh3}, why: "links carry the core's frames and know nothing else of it"},
	"internal/telemetry":  {internal: []string{"internal/config", "internal/vsr"}, why: "it turns settings into a log, and events into records and numbers"},
	"internal/transport": {internal: []string{"internal/wire"}, external: []string{quicgo, wsock},
		why: "both ends of a connection know where a frame begins and ends, and nothing of sessions; quic-go and coder/websocket stay behind it"},
	"internal/edge": {internal: []string{".", "internal/wire", "internal/auth", "internal/metadata", "internal/partition", "internal/transport"}, external: []string{xxh3, xsync},
		why: "sessions run over whatever carries frames, and reach the shards through an interface they declare; of the machines they know the immutable views and read plans, since reads do not pass a shard's loop"},
	"internal/router": {internal: []string{".", "internal/wire", "internal/edge", "internal/peer", "internal/metadata", "internal/partition", "internal/vsr"},
		why: "it stands between the edge and the engine, whose interface it declares, and asks peers"},
	"internal/httpapi": {internal: []string{".", "internal/wire", "internal/auth", "internal/metadata", "internal/partition"},
		why: "as the edge, in another language; health is asked through an interface it declares"},
	"internal/shard": {internal: []string{".", "internal/cipher", "internal/wire", "internal/vsr", "internal/wal", "internal/superblock", "internal/snapshot", "internal/disk", "internal/metadata", "internal/partition"}, external: []string{xxh3},
		why: "the driver knows the core, the log, the stores and the two machines it drives, and nothing of clients or links"},
	"internal/verify": {internal: []string{".", "internal/cipher", "internal/wire", "internal/vsr", "internal/wal", "internal/superblock", "internal/snapshot", "internal/disk", "internal/disk/overlay", "internal/metadata", "internal/partition", "internal/shard"}, external: []string{xxh3},
		why: "it opens data directories as the driver does, on an overlay, and compares what the machines make of them"},
	"internal/engine": {internal: []string{".", "internal/cipher", "internal/wire", "internal/vsr", "internal/superblock", "internal/disk", "internal/metadata", "internal/partition", "internal/config", "internal/edge", "internal/shard"},
		why: "the shards of a node and what the edge is answered: no socket, no goroutine, so that the simulator runs it as it is"},
	"internal/node": {internal: below, external: []string{xsync, xsys}, why: "one server put together: it knows everything below and is known by few"},
	"internal/sim": {internal: slices.Concat(below, []string{"internal/disk/memdisk"}), external: []string{porcu},
		why: "the simulator stands where the node does; porcupine judges what its clients were answered"},
	"client": {internal: []string{".", "internal/wire", "internal/transport"}, why: "a client links no server; what it dials with is the other end of what servers listen with"},
	"client/galgotest": {internal: []string{".", "client", "internal/node", "internal/config", "internal/disk", "internal/disk/memdisk"},
		why: "a node in process, for users' tests"},
	"internal/cli": {internal: slices.Concat(below, []string{"client", "internal/freeport", "internal/node", "internal/sim", "internal/verify"}), external: []string{cobra, pflag, xsys, xsync},
		why: "commands use the client, start the node and print a data directory's files; x/sys tells whether a terminal listens"},
	"cmd/galgo":         {internal: []string{"internal/cli"}, why: "main calls cli.Run and nothing else, so that tests can too"},
	"internal/freeport": {why: "it finds ports, for whoever starts servers"},
	"internal/memnet":   {why: "a network for tests knows nobody"},
	"internal/tidy":     {why: "it reads sources, it links none"},
	"test": {internal: slices.Concat(below, []string{"client", "internal/node", "internal/cli", "internal/memnet", "internal/disk/memdisk"}),
		why: "tests of whole processes, and of whole nodes in virtual time"},
	"test/corespeed": {internal: []string{"internal/vsr", "internal/wal", "internal/disk"}, external: []string{xsys},
		why: "a measurement of the core alone; x/sys tells the processor time used"},
}

// below is everything a node is made of.
var below = []string{".", "internal/auth", "internal/cipher", "internal/config", "internal/disk", "internal/edge", "internal/engine", "internal/httpapi", "internal/metadata",
	"internal/partition", "internal/peer", "internal/router", "internal/shard", "internal/snapshot", "internal/superblock", "internal/telemetry",
	"internal/transport", "internal/vsr", "internal/wal", "internal/wire"}

// nodeUsers may import the node from their tests.
var nodeUsers = []string{"client", "cmd", "internal/cli", "internal/node", "internal/sim", "test"}

const importAdvice = "\n\tmove what both need into a package below, or declare an interface where it is used;" +
	"\n\tif the direction is right and the table is wrong, change internal/tidy/imports_test.go and say why"

// TestImports holds the sources against the table.
func TestImports(t *testing.T) {
	tree := mustTree(t)
	for _, p := range tree.pkgs {
		r, owner, ok := rowOf(p.dir)
		if !ok {
			t.Errorf("package %s has no row in internal/tidy/imports_test.go: say what it may import, and why", p.importPath())
			continue
		}
		for _, s := range p.sources {
			for name, at := range s.imports() {
				if complaint := checkImport(p.dir, s.test, name, r, owner); complaint != "" {
					t.Errorf("%s: %s", tree.where(at), complaint)
				}
			}
		}
	}
}

// rowOf returns the row of a directory and the directory it stands for.
func rowOf(dir string) (r row, owner string, ok bool) {
	for at := dir; ; at = path.Dir(at) {
		if r, ok := table[at]; ok && (at != "." || dir == ".") {
			return r, at, true
		}
		if at == "." {
			return row{}, "", false
		}
	}
}

// checkImport returns what is wrong with an import, or "".
func checkImport(dir string, test bool, name string, r row, owner string) string {
	target, isOwn := ownDir(name)
	switch {
	case isOwn:
		return checkOwn(dir, test, target, r, owner)
	case !strings.Contains(strings.Split(name, "/")[0], "."):
		return "" // the standard library; pure_test.go says more
	case test, within(name, r.external):
		return ""
	}
	return fmt.Sprintf("%s must not import %s: it may use %s, since %s%s", dir, name, listed(r.external), r.why, importAdvice)
}

func checkOwn(dir string, test bool, target string, r row, owner string) string {
	if test {
		if target == "internal/node" && !within(dir, nodeUsers) {
			return fmt.Sprintf("tests of %s must not import the node: nobody below it may, test what is here, or write it in test/", dir)
		}
		return ""
	}
	if slices.Contains(r.internal, target) || dir != owner && within(target, []string{owner}) {
		return ""
	}
	return fmt.Sprintf("%s must not import %s: it may import %s, since %s%s", dir, target, listed(r.internal), r.why, importAdvice)
}

// within reports whether name is one of the roots or below one.
func within(name string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return name == r || strings.HasPrefix(name, r+"/") })
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// TestImportRulesRefuse: the checker itself, on imports that must not pass.
func TestImportRulesRefuse(t *testing.T) {
	for _, tt := range []struct {
		dir, name string
		test, ok  bool
	}{
		{"internal/vsr", "galgo/internal/wire", false, false},
		{"internal/wire", "galgo", false, true},
		{"internal/wire", "galgo/internal/metadata", false, false},
		{"internal/disk/memdisk", "galgo/internal/disk", false, true},
		{"internal/disk", "galgo/internal/disk/memdisk", false, false},
		{"internal/edge", "galgo/internal/shard", false, false},
		{"internal/edge", "galgo/internal/node", true, false},
		{"client", "galgo/internal/node", false, false},
		{"client", "galgo/internal/node", true, true},
		{"cmd/galgo", "galgo/internal/node", false, false},
		{"internal/config", "golang.org/x/sys/unix", false, false},
		{"internal/node", "golang.org/x/sys/unix", false, true},
		{"internal/vsr", "pgregory.net/rapid", true, true},
		{"internal/vsr", "pgregory.net/rapid", false, false},
		{"internal/vsr", "fmt", false, true},
	} {
		r, owner, ok := rowOf(tt.dir)
		if !ok {
			t.Fatalf("no row for %s", tt.dir)
		}
		if got := checkImport(tt.dir, tt.test, tt.name, r, owner); (got == "") != tt.ok {
			t.Errorf("%s imports %s (test: %t): got %q, want it allowed: %t", tt.dir, tt.name, tt.test, got, tt.ok)
		}
	}
	if _, _, ok := rowOf("internal/newcomer"); ok {
		t.Error("a package without a row passes")
	}
}
