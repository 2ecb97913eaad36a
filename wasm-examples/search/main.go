//go:build wasip1

// Search prints the passages of a folder of text that are nearest to a question.
//
// Its input is corpus, a folder; its arguments are the question.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"idlemesh/sandbox/guest"
	"idlemesh/wasm-examples/search/passage"
)

// biggest is the largest file that is read: beyond it are data, not text.
const biggest = 1 << 20

func main() {
	k := flag.Int("k", 5, "passages to print")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: search [-k 5] a question in words")
	}
	flag.Parse()
	question := strings.Join(flag.Args(), " ")
	if question == "" || *k <= 0 || *k > 1000 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(question, *k); err != nil {
		fmt.Fprintln(os.Stderr, "search:", err)
		os.Exit(1)
	}
}

func run(question string, k int) error {
	x := passage.NewIndex()
	if err := read(x, os.DirFS("/in/corpus")); err != nil {
		return err
	}
	hits, err := x.Search(guest.Device{}, question, k, func(done int) {
		guest.Progress(uint64(done), uint64(x.Len()), "comparing passages")
	})
	if err != nil {
		return err
	}
	guest.Metric("passages", float64(x.Len()))
	if len(hits) == 0 {
		fmt.Printf("none of %d passages has a word of the question\n", x.Len())
	}
	for _, h := range hits {
		fmt.Printf("%s:%d  %.3f\n", h.File, h.Line, h.Score)
		for line := range strings.Lines(h.Head) {
			fmt.Printf("    %s\n", strings.TrimRight(line, "\r\n"))
		}
		fmt.Println()
	}
	return nil
}

// read adds every file of the folder.
func read(x *passage.Index, corpus fs.FS) error {
	var names []string
	err := fs.WalkDir(corpus, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: submit it with --input corpus=FOLDER", err)
	}
	for i, name := range names {
		if i%50 == 0 || i == len(names)-1 {
			guest.Progress(uint64(i+1), uint64(len(names)), "reading files")
		}
		st, err := fs.Stat(corpus, name)
		if err != nil {
			return err
		}
		if st.Size() > biggest {
			continue
		}
		text, err := fs.ReadFile(corpus, name)
		if err != nil {
			return err
		}
		x.Add(name, text)
	}
	return nil
}
