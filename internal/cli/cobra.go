package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagSet is what a command declares its flags on.
type flagSet = pflag.FlagSet

// command is one command, or a group of them.
type command struct {
	use     string // the name, then the arguments
	aliases []string
	short   string // one line, no full stop
	long    string
	example string
	args    argRange
	flags   func(*flagSet)
	// connects gives the command the flags that say where the server is.
	connects bool
	// plain commands print no data: they have no --output.
	plain  bool
	hidden bool
	run    func(ctx context.Context, e *env, args []string) error
	subs   []*command
}

// argRange is how many arguments a command takes; max -1 is any number.
type argRange struct{ min, max int }

func exactly(n int) argRange    { return argRange{n, n} }
func atLeast(n int) argRange    { return argRange{n, -1} }
func between(a, b int) argRange { return argRange{a, b} }

// execute finds the command that args name and runs it.
func execute(ctx context.Context, e *env, args []string) error {
	root := build(rootCommand(), e)
	root.SilenceErrors, root.SilenceUsage = true, true
	// Global flags may also stand before the command, where their letters never
	// clash with those of a command.
	root.TraverseChildren = true
	root.SetArgs(args)
	root.SetIn(e.program.Stdin)
	root.SetOut(e.program.Stdout)
	root.SetErr(e.program.Stderr)
	root.SetUsageFunc(func(c *cobra.Command) error { return writeUsage(c.OutOrStderr(), c) })
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprintf(c.OutOrStdout(), "%s\n\n", orElse(c.Long, c.Short))
		_ = writeUsage(c.OutOrStdout(), c)
	})
	err := root.ExecuteContext(ctx)
	if isCobraUsage(err) {
		return usagef("%v", err)
	}
	return err
}

// isCobraUsage recognises cobra's own complaints about a command line, which have
// no type.
func isCobraUsage(err error) bool {
	if err == nil {
		return false
	}
	for _, start := range []string{"unknown command ", "unknown flag: ", "unknown shorthand flag: "} {
		if strings.HasPrefix(err.Error(), start) {
			return true
		}
	}
	return false
}

// build makes the cobra command of a command and its subcommands.
func build(c *command, e *env) *cobra.Command {
	cc := &cobra.Command{
		Use: c.use, Aliases: c.aliases, Short: c.short, Long: c.long, Example: c.example, Hidden: c.hidden,
		DisableFlagsInUseLine: true, SuggestionsMinimumDistance: 2,
	}
	if c.flags != nil {
		c.flags(cc.Flags())
	}
	addGlobals(cc.Flags(), e, c)
	cc.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%v", err) })
	for _, sub := range c.subs {
		cc.AddCommand(build(sub, e))
	}
	if c.run == nil {
		cc.Args = func(cc *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if near := cc.SuggestionsFor(args[0]); len(near) > 0 {
				hint = ": did you mean " + strings.Join(near, " or ") + "?"
			}
			return usagef("unknown command %q for %q%s", args[0], cc.CommandPath(), hint)
		}
		cc.RunE = func(cc *cobra.Command, _ []string) error { return cc.Help() }
		return cc
	}
	cc.Args = func(cc *cobra.Command, args []string) error { return c.args.check(cc.UseLine(), len(args)) }
	cc.RunE = func(cc *cobra.Command, args []string) error {
		if err := e.globals.check(); err != nil {
			return err
		}
		return c.run(cc.Context(), e, args)
	}
	return cc
}

func (r argRange) check(use string, n int) error {
	switch {
	case n < r.min:
		return usagef("%d arguments are too few: %s", n, use)
	case r.max >= 0 && n > r.max:
		return usagef("%d arguments are too many: %s", n, use)
	}
	return nil
}

// globalMark marks a flag as one that is the same for all commands.
const globalMark = "global"

// addGlobals gives a command the global flags. A flag whose letter the command has
// given to one of its own keeps its long name only; before the command, where the
// flags of galgo itself stand, every letter works.
func addGlobals(fs *flagSet, e *env, c *command) {
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	root := c.use == rootUse
	if root || !c.plain {
		e.globals.outputFlags(global)
	}
	if root || c.connects {
		e.globals.connectFlags(global)
	}
	global.VisitAll(func(f *pflag.Flag) {
		if fs.Lookup(f.Name) != nil {
			return
		}
		if f.Shorthand != "" && fs.ShorthandLookup(f.Shorthand) != nil {
			f.Shorthand = ""
		}
		f.Annotations = map[string][]string{globalMark: nil}
		fs.AddFlag(f)
	})
}

func writeUsage(w io.Writer, c *cobra.Command) error {
	var b strings.Builder
	section := func(title, body string) {
		if body != "" {
			fmt.Fprintf(&b, "%s:\n%s\n\n", title, strings.TrimRight(body, "\n"))
		}
	}
	use := c.UseLine() + " [flags]"
	if c.HasAvailableSubCommands() {
		use = c.CommandPath() + " COMMAND"
	}
	section("Usage", "  "+use)
	if len(c.Aliases) > 0 {
		section("Aliases", "  "+strings.Join(append([]string{c.Name()}, c.Aliases...), ", "))
	}
	section("Examples", c.Example)
	section("Commands", commandList(c))
	section("Flags", flagUsages(c, false))
	section("Global flags", flagUsages(c, true))
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

func commandList(c *cobra.Command) string {
	var b strings.Builder
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-*s %s\n", c.NamePadding(), sub.Name(), sub.Short)
		}
	}
	return b.String()
}

func flagUsages(c *cobra.Command, global bool) string {
	fs := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, marked := f.Annotations[globalMark]; marked == global {
			fs.AddFlag(f)
		}
	})
	return strings.TrimRight(fs.FlagUsages(), "\n")
}
