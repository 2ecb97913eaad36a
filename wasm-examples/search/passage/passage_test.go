package passage_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"idlemesh/gpu"
	"idlemesh/gpu/cpu"
	"idlemesh/gpu/kernel"
	"idlemesh/wasm-examples/search/passage"
)

func session(t testing.TB) *gpu.Session {
	s := gpu.New(cpu.New(0), 0).Session(0, kernel.Reference{FLOPS: 1e12, Bandwidth: 1e12})
	t.Cleanup(func() { s.Close() })
	return s
}

func ask(t *testing.T, x *passage.Index, question string) []string {
	t.Helper()
	hits, err := x.Search(session(t), question, 5, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, h := range hits {
		places = append(places, fmt.Sprint(h.File, ":", h.Line))
	}
	return places
}

// kitchen has one passage for each thing to be asked about, among many others.
func kitchen() *passage.Index {
	x := passage.NewIndex()
	x.Add("bread.txt", []byte("\n\nKnead the dough well.\nLet it rise.\nBake it.\n\n\n"))
	x.Add("code/parse.go", []byte("package p\n\n// parseHTTPHeader resolves IPv4 names.\nfunc parseHTTPHeader() {}\n"))
	x.Add("code/parse_test.go", []byte("package p\n\n// parseHTTPHeader resolves IPv4 names.\nfunc parseHTTPHeader() {}\n"))
	x.Add("soup.txt", []byte(strings.Repeat("Stir the soup.\n", 50)+"\nA timeout ends the boiling.\n"))
	x.Add("image.png", []byte("dough\x00dough"))
	x.Add("empty.txt", nil)
	for i := range 600 {
		x.Add(fmt.Sprintf("other%d.txt", i), fmt.Appendf(nil, "A note numbered n%dx about thing t%dx.\n", i, i%50))
	}
	return x
}

func TestSearch(t *testing.T) {
	x := kitchen()
	for question, want := range map[string][]string{
		"how is dough kneaded?":               {"bread.txt:3"},
		"what parses a header":                {"code/parse.go:1", "code/parse_test.go:1"},
		"the resolver for IPv4":               {"code/parse.go:1", "code/parse_test.go:1"},
		"when does it time out":               {"soup.txt:52"},
		"numbered n577x":                      {"other577.txt:1"},
		"where is the xylophone":              nil,
		"":                                    nil,
		"how why where \x00\xff \xed\xa0\x80": nil,
	} {
		got := ask(t, x, question)
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) || want == nil && got != nil {
			t.Errorf("%q finds %v, want %v first", question, got, want)
		}
	}
}

func TestPassages(t *testing.T) {
	x := passage.NewIndex()
	x.Add("a.go", []byte(strings.Repeat("func f() {\n\n\tx := word\n\n\ty := other\n}\n\n", 3)+strings.Repeat("long\n", 100)))
	hits, err := x.Search(session(t), "func word long", 50, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, h := range hits {
		lines = append(lines, h.Line)
		if n := strings.Count(h.Head, "\n"); n > 5 || strings.HasSuffix(h.Head, "\n") {
			t.Errorf("line %d: head has %d line ends: %q", h.Line, n, h.Head)
		}
	}
	slices.Sort(lines)
	if want := []int{1, 8, 15, 22, 62, 102}; !slices.Equal(lines, want) {
		t.Errorf("passages begin at %v, want %v", lines, want)
	}
}

func TestNothingToSearch(t *testing.T) {
	if got := ask(t, passage.NewIndex(), "anything"); got != nil {
		t.Errorf("an empty index finds %v", got)
	}
}

// TestGoSources asks the sources that the example's instructions use.
func TestGoSources(t *testing.T) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no go command: ", err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src", "net")
	if _, err := os.Stat(root); err != nil {
		t.Skip("Go's sources are not here: ", err)
	}
	x := passage.NewIndex()
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		x.Add(name, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{
		"how does the resolver choose between IPv4 and IPv6": "lookup.go ipsock.go addrselect.go dial.go",
		"where are cookies parsed":                           "http/cookie.go",
		"which proxy is used for a request":                  "http/transport.go",
		"how does a dialer time out":                         "dial.go",
	} {
		got := ask(t, x, question)
		if !slices.ContainsFunc(got, func(place string) bool {
			file, _, _ := strings.Cut(place, ":")
			return slices.Contains(strings.Fields(want), file)
		}) {
			t.Errorf("%q finds %v, want one of %s", question, got, want)
		}
	}
}

func FuzzAdd(f *testing.F) {
	f.Add("a.go", []byte("package p\n\n\nfunc HTTPServer() {}\n"))
	f.Add("", []byte("\n \n\t\n\xff\xfe IPv4 x_y"))
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		x := passage.NewIndex()
		x.Add(name, text)
		x.Search(session(t), string(text[:min(len(text), 100)]), 3, func(int) {})
	})
}
