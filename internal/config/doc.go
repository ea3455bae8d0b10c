// Package config turns compiled-in defaults, a TOML file, environment variables
// and command line flags, in that order, into one plain [Config].
//
// A single table (keys.go and the files beside it) says for every key its name,
// default, bounds, meaning and place in the struct. Everything else follows from
// the table: what a file may hold, the names of the variables, what `galgo
// config` prints, the sample file and docs/configuration.md. To add a setting,
// add a field to [Config] and an entry to the table.
//
// Three classes of keys:
//
//   - active keys do what they say;
//   - later keys belong to parts that galgo does not have yet. Their default is
//     accepted and any other value refused, so that nobody believes a switch
//     that does nothing;
//   - idle keys tune internals that galgo does not have, parts whose switch is a
//     later key, or parts that have nothing to act on yet. Any well-formed value is
//     accepted, with a warning.
//
// Later and idle keys exist so that a configuration made for the reference
// server loads wherever it means the same here. They have no field in Config.
//
// The package reads its input and returns: it prints nothing, keeps no state and
// looks at no environment but the one it is handed. Secrets appear in no error,
// table or file that it makes.
package config
