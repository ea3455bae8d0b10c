// Package tidy holds the tree to its rules. It has tests only: which package may
// import which (imports_test.go), what the pure packages must not touch
// (pure_test.go), how large things may grow (size_test.go), what must be
// explained (docs_test.go) and which files must be there (files_test.go).
//
// A test that fails says what to do instead. A rule that is in the way of a
// better design is changed in the commit that needs it, with its reason: the
// tables are the place to argue.
//
// The tests read the sources themselves instead of asking the go command, so
// that they take a second, see files under every build constraint, and their
// cached results are never older than the sources.
package tidy
