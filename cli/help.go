package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
)

// help is what a command does and how to call it, on one screen. Examples are a
// command's Description.
func help(app *cli.App, l line) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 3, ' ', 0)
	var flags []cli.Flag
	if l.cmd == nil {
		fmt.Fprintf(w, "%s: %s\n\n  %[1]s COMMAND [flags]\n", app.Name, app.Usage)
	} else {
		fmt.Fprintf(w, "%s: %s\n\n  %[1]s", l.name, l.cmd.Usage)
		if flags = l.cmd.VisibleFlags(); len(flags) > 0 {
			fmt.Fprint(w, " [flags]")
		}
		if len(l.cmd.Subcommands) > 0 {
			fmt.Fprint(w, " COMMAND")
		}
		fmt.Fprintln(w, strings.TrimRight(" "+l.cmd.ArgsUsage, " "))
	}
	section(w, "commands", l.commands(app), func(c *cli.Command) string {
		if c.Hidden {
			return ""
		}
		return fmt.Sprintf("  %s\t%s\n", c.Name, c.Usage)
	})
	section(w, "flags", flags, flagHelp)
	section(w, "flags of every command", app.VisibleFlags(), flagHelp)
	if l.cmd != nil && l.cmd.Description != "" {
		fmt.Fprintf(w, "\nexamples\n%s\n", indent(l.cmd.Description))
	}
	w.Flush()
	return b.String()
}

func section[T any](w *tabwriter.Writer, title string, rows []T, line func(T) string) {
	for i, r := range rows {
		if i == 0 {
			fmt.Fprintf(w, "\n%s\n", title)
		}
		fmt.Fprint(w, line(r))
	}
}

func flagHelp(f cli.Flag) string {
	doc, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return ""
	}
	usage, names := doc.GetUsage(), f.Names()
	_, isBool := f.(*cli.BoolFlag)
	value := ""
	if before, rest, ok := strings.Cut(usage, "`"); ok {
		name, after, _ := strings.Cut(rest, "`")
		value, usage = name, before+name+after
	}
	left := "--" + names[0]
	if len(names) > 1 {
		left = "-" + names[1] + ", " + left
	}
	if !isBool {
		left += " " + value
	}
	if d := doc.GetDefaultText(); !isBool && d != "" && d != `""` && d != "0" {
		usage += " (" + strings.Trim(d, `"`) + ")"
	}
	if env := doc.GetEnvVars(); len(env) > 0 {
		usage += " [$" + env[0] + "]"
	}
	return fmt.Sprintf("  %s\t%s\n", left, usage)
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ")
}
