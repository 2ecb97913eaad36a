package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

func (t terminal) versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "say what this binary is",
		Description: "meshctl version\nmeshctl version -o json",
		Action: func(c *cli.Context) error {
			if _, err := operands(c, 0, 0); err != nil {
				return err
			}
			return show(t, c, version(), []column[versionView]{
				{head: "version", cell: func(v versionView) string { return v.Version }},
				{head: "commit", cell: func(v versionView) string { return v.Commit }},
				{head: "go", cell: func(v versionView) string { return v.Go }},
				{head: "platform", cell: func(v versionView) string { return v.Platform }},
			})
		},
	}
}

type versionView struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// version is what the Go linker wrote into the binary.
func version() versionView {
	v := versionView{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if b.Main.Version != "" {
		v.Version = b.Main.Version
	}
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
