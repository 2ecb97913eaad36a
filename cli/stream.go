package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
)

// tablePage is how many rows are laid out together: so many are held, however long the
// list is.
const tablePage = 500

// A listing prints rows as they come, in the format that the user chose: what list
// prints of all of them at once, but for the width of columns, which is found anew for
// each page.
type listing[T any] struct {
	t      terminal
	format string
	cols   []column[T]
	live   bool // rows are not waited for: each is a page, and each JSON value a line
	page   []T
	count  int
}

func newListing[T any](t terminal, c *cli.Context, cols []column[T], live bool) *listing[T] {
	return &listing[T]{t: t, format: c.String("output"), cols: shown(c, cols), live: live}
}

func (l *listing[T]) add(row T) error {
	l.count++
	switch l.format {
	case "json":
		return l.json(row)
	case "yaml":
		b, err := marshal([]T{row}, "")
		if err != nil {
			return err
		}
		return toYAML(l.t.out, b)
	case "name":
		_, err := fmt.Fprintln(l.t.out, clean(l.cols[0].cell(row)))
		return err
	}
	l.page = append(l.page, row)
	if l.live || len(l.page) == tablePage {
		return l.flush()
	}
	return nil
}

func (l *listing[T]) json(row T) error {
	if l.live {
		b, err := json.Marshal(row)
		if err == nil {
			_, err = l.t.out.Write(append(b, '\n'))
		}
		return err
	}
	b, err := marshal(row, "  ")
	if err != nil {
		return err
	}
	before := ",\n  "
	if l.count == 1 {
		before = "[\n  "
	}
	_, err = io.WriteString(l.t.out, before+string(bytes.TrimSpace(b)))
	return err
}

// flush prints the page at hand, with a heading if it is the first.
func (l *listing[T]) flush() error {
	var b bytes.Buffer
	if err := table(&b, l.cols, l.page); err != nil {
		return err
	}
	if l.count > len(l.page) {
		b.ReadBytes('\n')
	}
	l.page = l.page[:0]
	_, err := b.WriteTo(l.t.out)
	return err
}

// close prints what is left.
func (l *listing[T]) close() error {
	switch {
	case l.format == "json" && l.live, l.format == "name":
		return nil
	case l.format == "json" && l.count > 0:
		_, err := io.WriteString(l.t.out, "\n]\n")
		return err
	case (l.format == "json" || l.format == "yaml") && l.count == 0:
		_, err := io.WriteString(l.t.out, "[]\n")
		return err
	case l.format == "yaml" || l.count > 0 && len(l.page) == 0:
		return nil
	}
	return l.flush()
}

// marshal writes v as encode does, each line but the first behind prefix.
func marshal(v any, prefix string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}
