// Package cli is galgo's command line: what each command asks, of whom, and how it
// prints what it learns.
//
// A command is a function of a context, its environment and its arguments; cobra
// is known to cobra.go alone. Data go to stdout, as a table or as JSON, and talk
// goes to stderr, so that output can be piped. Nothing is coloured.
//
// The exit status tells what went wrong, see Exit.
package cli
