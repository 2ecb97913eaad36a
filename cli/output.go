package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
	"golang.org/x/term"

	"idlemesh/ledger/record"
)

var formats = []string{"table", "wide", "json", "yaml", "name"}

func checkFormat(c *cli.Context) error {
	if f := c.String("output"); !slices.Contains(formats, f) {
		return usage("", "--output: %q is not a format: want %s", f, strings.Join(formats, ", "))
	}
	return nil
}

// A column is how one thing about a row reads in a table. The first column of a row
// is its name.
type column[T any] struct {
	head string
	cell func(T) string
	wide bool // only in wide tables
}

// list prints rows, and show one thing, in the format that the user chose. Every
// command prints data through them, so that every command has every format. JSON and
// YAML have what T has.
func list[T any](t terminal, c *cli.Context, rows []T, cols []column[T]) error {
	if done, err := t.encode(c, append([]T{}, rows...)); done {
		return err
	}
	if c.String("output") == "name" {
		for _, r := range rows {
			fmt.Fprintln(t.out, clean(cols[0].cell(r)))
		}
		return nil
	}
	return table(t.out, shown(c, cols), rows)
}

func show[T any](t terminal, c *cli.Context, row T, cols []column[T]) error {
	if done, err := t.encode(c, row); done {
		return err
	}
	if c.String("output") == "name" {
		_, err := fmt.Fprintln(t.out, clean(cols[0].cell(row)))
		return err
	}
	w := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	for _, col := range shown(c, cols) {
		if v := clean(col.cell(row)); v != "" {
			fmt.Fprintf(w, "%s\t%s\n", col.head, v)
		}
	}
	return w.Flush()
}

// encode prints v where the format is not for people.
func (t terminal) encode(c *cli.Context, v any) (bool, error) {
	format := c.String("output")
	if format != "json" && format != "yaml" {
		return false, nil
	}
	b, err := marshal(v, "")
	if err != nil {
		return true, err
	}
	if format == "yaml" {
		return true, toYAML(t.out, b)
	}
	_, err = t.out.Write(b)
	return true, err
}

// toYAML writes JSON as YAML, of which it is a part: names and order stay.
func toYAML(w io.Writer, b []byte) error {
	var n yaml.Node
	if err := yaml.Unmarshal(b, &n); err != nil {
		return err
	}
	block(&n)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&n); err != nil {
		return err
	}
	return e.Close()
}

func block(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, x := range n.Content {
		block(x)
	}
}

func table[T any](out io.Writer, cols []column[T], rows []T) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	line := func(cell func(column[T]) string) {
		for i, col := range cols {
			sep := "\t"
			if i == len(cols)-1 {
				sep = "\n"
			}
			fmt.Fprint(w, cell(col)+sep)
		}
	}
	line(func(c column[T]) string { return strings.ToUpper(c.head) })
	for _, r := range rows {
		line(func(c column[T]) string {
			if s := clean(c.cell(r)); s != "" {
				return s
			}
			return "-"
		})
	}
	return w.Flush()
}

func shown[T any](c *cli.Context, cols []column[T]) []column[T] {
	if c.String("output") == "wide" {
		return cols
	}
	return slices.DeleteFunc(slices.Clone(cols), func(col column[T]) bool { return col.wide })
}

// live reports whether a person looks at what is printed to err as it comes.
func (t terminal) live() bool { return isTerminal(t.err) }

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// faint renders words that only label others.
func (t terminal) faint(s string) string {
	if !t.live() || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return s
	}
	return "\x1b[2m" + s + "\x1b[0m"
}

// A stamp is a time as JSON has it; zero is none.
type stamp record.Millis

// MarshalText returns the time in RFC 3339, UTC.
func (s stamp) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s stamp) String() string {
	if s == 0 {
		return ""
	}
	return record.Millis(s).Time().Format(time.RFC3339Nano)
}

// credits renders an amount for people: three decimals, more where they say
// something.
func credits(a record.Amount) string {
	s := a.String()
	for strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > 4 {
		s = s[:len(s)-1]
	}
	return s
}

// size renders bytes.
func size(n uint64) string {
	units := [...]string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	f, i := float64(n), 0
	for ; f >= 1000 && i < len(units)-1; i++ {
		f /= 1000
	}
	if i == 0 || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// span renders a time that passed.
func span(ms record.Millis) string {
	d := ms.Duration()
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", ms)
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}
