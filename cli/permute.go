package cli

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// A line is a command line, read to the point where it is known what it asks for.
type line struct {
	args []string     // flags first, where urfave/cli looks for them
	cmd  *cli.Command // that it names; nil is meshctl itself
	name string       // of the command, in full
	help bool         // it asks only how to use the command
}

// commands are those that may follow.
func (l line) commands(app *cli.App) []*cli.Command {
	if l.cmd == nil {
		return app.Commands
	}
	return l.cmd.Subcommands
}

// permute moves flags before arguments; without it `submit m.wasm --shards 5` would
// lose the flag in silence. What follows `--` stays behind it, so that a command can
// tell its own arguments from a module's.
func permute(app *cli.App, args []string) (line, error) {
	p := permuter{app: app, line: line{name: app.Name}}
	for len(args) > 0 {
		n, err := p.take(args)
		if err != nil {
			return line{}, err
		}
		args = args[n:]
	}
	p.line.args = slices.Concat(p.global, p.path, p.flags)
	if len(p.args) > 0 {
		p.line.args = append(append(p.line.args, "--"), p.args...)
	}
	return p.line, nil
}

type permuter struct {
	app                       *cli.App
	line                      line
	global, path, flags, args []string
}

// take consumes one argument, or a flag with its value, and returns how many.
func (p *permuter) take(a []string) (int, error) {
	switch cmds := p.line.commands(p.app); {
	case a[0] == "--":
		p.args = append(p.args, a...)
		return len(a), nil
	case len(a[0]) > 1 && a[0][0] == '-':
		return p.flag(a)
	case len(cmds) > 0 && a[0] == "help":
		p.line.help = true
		return 1, nil
	case len(cmds) > 0:
		return 1, p.enter(cmds, a[0])
	}
	p.args = append(p.args, a[0])
	return 1, nil
}

func (p *permuter) enter(cmds []*cli.Command, name string) error {
	i := slices.IndexFunc(cmds, func(c *cli.Command) bool { return c.HasName(name) })
	if i < 0 {
		next := p.line.name + " --help"
		if s := nearest(name, commandNames(cmds)); s != "" {
			next = p.line.name + " " + s
		}
		return usage(next, "%sunknown command %q", prefix(p.line.name), name)
	}
	p.line.cmd, p.line.name = cmds[i], p.line.name+" "+cmds[i].Name
	p.path = append(p.path, cmds[i].Name)
	return nil
}

func (p *permuter) flag(a []string) (int, error) {
	dashed, _, hasValue := strings.Cut(a[0], "=")
	name := strings.TrimLeft(dashed, "-")
	if name == "help" || name == "h" {
		p.line.help = true
		return 1, nil
	}
	var own []cli.Flag
	if p.line.cmd != nil {
		own = p.line.cmd.Flags
	}
	into, f := &p.flags, find(own, name)
	if f == nil {
		into, f = &p.global, find(p.app.Flags, name)
	}
	_, isBool := f.(*cli.BoolFlag)
	switch {
	case f == nil:
		next := p.line.name + " --help"
		if s := nearest(name, flagNames(slices.Concat(own, p.app.Flags))); s != "" {
			next = p.line.name + " --" + s
		}
		return 0, usage(next, "%sunknown flag %s", prefix(p.line.name), dashed)
	case isBool || hasValue:
		*into = append(*into, a[0])
		return 1, nil
	case len(a) < 2:
		return 0, usage(p.line.name+" --help", "%s%s wants a value", prefix(p.line.name), a[0])
	}
	*into = append(*into, a[0]+"="+a[1])
	return 2, nil
}

func find(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func commandNames(cmds []*cli.Command) []string {
	var names []string
	for _, c := range cmds {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

func flagNames(flags []cli.Flag) []string {
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()[0])
	}
	return names
}

func words(cmds []*cli.Command) string { return strings.Join(commandNames(cmds), ", ") }

// nearest returns the name that was likely meant, if any.
func nearest(typed string, names []string) string {
	best, least := "", 1+len(typed)/3
	for _, n := range names {
		if d := distance(typed, n); d <= least && (best == "" || d < distance(typed, best)) {
			best = n
		}
	}
	return best
}

// distance counts the letters to insert, delete, replace or swap with a neighbour.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := range a {
		before, last, row := rows[i%3], rows[(i+1)%3], rows[(i+2)%3]
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
