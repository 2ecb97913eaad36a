package cli

import (
	"bytes"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func formatted(format string) *cli.Context {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.String("output", format, "")
	return cli.NewContext(nil, set, nil)
}

// TestListing holds what is printed row by row to what list prints at once.
func TestListing(t *testing.T) {
	type row struct {
		N    int    `json:"n"`
		Text string `json:"text"`
	}
	cols := []column[row]{
		{head: "n", cell: func(r row) string { return fmt.Sprint(r.N) }},
		{head: "text", cell: func(r row) string { return r.Text }},
		{head: "more", cell: func(r row) string { return "x" }, wide: true},
	}
	for _, format := range formats {
		for _, n := range []int{0, 1, 3, tablePage, 2*tablePage + 1} {
			rows := make([]row, n)
			for i := range rows {
				rows[i] = row{1e6 + i, "<a> & b"}
			}
			var want, got bytes.Buffer
			c := formatted(format)
			if err := list(terminal{out: &want}, c, rows, cols); err != nil {
				t.Fatal(err)
			}
			l := newListing(terminal{out: &got}, c, cols, false)
			for _, r := range rows {
				if err := l.add(r); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.close(); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() {
				t.Errorf("%s, %d rows:\n%.300s\nwant\n%.300s", format, n, got.String(), want.String())
			}
		}
	}
	var out bytes.Buffer
	l := newListing(terminal{out: &out}, formatted("json"), cols, true)
	for i := range 2 {
		if err := l.add(row{N: i}); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "\n"); lines != i+1 {
			t.Errorf("%d lines after %d rows", lines, i+1)
		}
	}
}
