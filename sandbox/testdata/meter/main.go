// Command meter has programs that the cost of metering is measured on. It prints a
// digest of what it computed.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

var programs = map[string]func(io.Writer){
	"sha256": digests,
	"sort":   sorting,
	"json":   documents,
	"regexp": matching,
	"gzip":   packing,
}

func main() {
	h := sha256.New()
	programs[os.Args[1]](h)
	fmt.Printf("%x\n", h.Sum(nil))
}

// A chance is a small generator of numbers, the same everywhere.
type chance uint64

func (c *chance) next() uint64 {
	*c ^= *c << 13
	*c ^= *c >> 7
	*c ^= *c << 17
	return uint64(*c)
}

func text(n int) string {
	words := strings.Fields("a node sells its idle time and a tenant pays for the work that is done while the owner sleeps")
	var b strings.Builder
	for c := chance(7); b.Len() < n; {
		b.WriteString(words[c.next()%uint64(len(words))])
		b.WriteByte(" \n"[c.next()%8/7])
	}
	return b.String()
}

func digests(w io.Writer) {
	block := []byte(text(1 << 20))
	s := sha256.Sum256(block)
	w.Write(s[:])
}

func sorting(w io.Writer) {
	c := chance(1)
	l := make([]uint64, 50_000)
	for i := range l {
		l[i] = c.next()
	}
	slices.Sort(l)
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprint(c.next())
	}
	slices.Sort(names)
	fmt.Fprint(w, l[0], l[len(l)/2], names[0])
}

type document struct {
	Name   string            `json:"name"`
	Values []float64         `json:"values"`
	Tags   map[string]string `json:"tags"`
	Next   *document         `json:"next,omitempty"`
}

func documents(w io.Writer) {
	d := &document{Name: "end"}
	c := chance(3)
	for i := range 60 {
		d = &document{Name: fmt.Sprint("document ", i%8), Tags: map[string]string{"n": fmt.Sprint(c.next()), "shard": fmt.Sprint(i)}}
		for range 100 {
			d.Values = append(d.Values, float64(c.next()%1e6)/1e3)
		}
		b, err := json.Marshal(d)
		var back document
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		if err != nil || back.Name != d.Name {
			panic(err)
		}
		w.Write(b)
	}
}

func matching(w io.Writer) {
	t := text(40_000)
	for _, p := range []string{`(\w+) node (\w+)`, `[a-d]+e\b`, `(own|ten)(er|ant)[^\n]*work`} {
		fmt.Fprint(w, len(regexp.MustCompile(p).FindAllStringIndex(t, -1)))
	}
}

func packing(w io.Writer) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text(150_000))
	z.Close()
	r, err := gzip.NewReader(&b)
	if err != nil {
		panic(err)
	}
	io.Copy(w, r)
}
