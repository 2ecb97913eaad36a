package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// completeName is how a shell asks what may stand in place of the last word.
const completeName = "__complete"

var shells = map[string]string{
	"bash": `_meshctl() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _meshctl meshctl
`,
	"zsh": `#compdef meshctl
_meshctl() {
  local -a found
  found=(${(f)"$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( ${#found} )); then compadd -a found; else _files; fi
}
compdef _meshctl meshctl
`,
	"fish": `complete -c meshctl -a '(set -l w (commandline -opc) (commandline -ct); $w[1] __complete $w[2..-1] 2>/dev/null)'
`,
}

func (t terminal) completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a script that teaches a shell meshctl's words", ArgsUsage: "bash|zsh|fish",
		Description: "source <(meshctl completion bash)\nmeshctl completion fish > ~/.config/fish/completions/meshctl.fish",
		Action: func(c *cli.Context) error {
			args, err := operands(c, 1, 1)
			if err != nil {
				return err
			}
			script, ok := shells[args[0]]
			if !ok {
				return usage("meshctl completion bash", "completion: %q is not a shell we know: want bash, zsh or fish", args[0])
			}
			_, err = io.WriteString(t.out, script)
			return err
		},
	}
}

// complete prints what may stand in place of the last of words, a line each. Nothing
// means a file, or anything.
func (t terminal) complete(app *cli.App, typed []string) error {
	if len(typed) == 0 {
		typed = []string{""}
	}
	last := typed[len(typed)-1]
	for _, w := range candidates(app, typed[:len(typed)-1], last) {
		if strings.HasPrefix(w, last) {
			fmt.Fprintln(t.out, w)
		}
	}
	return nil
}

func candidates(app *cli.App, before []string, last string) []string {
	if slices.Contains(before, "--") {
		return nil
	}
	l, err := permute(app, before)
	if err != nil && len(before) > 0 { // the last word is the value of the flag before it
		return flagValues(strings.TrimLeft(before[len(before)-1], "-"))
	}
	switch {
	case strings.HasPrefix(last, "-"):
		flags := app.Flags
		if l.cmd != nil {
			flags = slices.Concat(l.cmd.Flags, flags)
		}
		var out []string
		for _, n := range append(flagNames(flags), "help") {
			out = append(out, "--"+n)
		}
		return out
	case l.cmd != nil && l.cmd.Name == "completion":
		return []string{"bash", "fish", "zsh"}
	}
	return commandNames(l.commands(app))
}

func flagValues(flag string) []string {
	switch flag {
	case "output", "o":
		return formats
	case "tier":
		return []string{"bronze", "silver", "gold"}
	}
	return nil
}
