package record

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A schema is what docs/records.cddl says, read by itself: the part of CDDL that the file
// is written in. It shares nothing with the code that writes the file or the records.
type schema map[string][]string // name → the words of its type

var words = regexp.MustCompile(`"[^"]*"|=>|[A-Za-z][\w-]*|-?\d+|\.size|\.cbor|#6\.18|[][{}():,?*/]`)

func readSchema(t testing.TB) schema {
	b, err := os.ReadFile(cddlFile)
	if err != nil {
		t.Fatal(err)
	}
	s := schema{}
	for _, rule := range strings.Split(regexp.MustCompile(`;.*`).ReplaceAllString(string(b), ""), "\n\n") {
		name, body, ok := strings.Cut(rule, " = ")
		if ok {
			s[strings.TrimSpace(name)] = words.FindAllString(body, -1)
		}
	}
	return s
}

// check reports whether b is one item of a rule, and nothing more.
func (s schema) check(rule string, b []byte) error {
	r := &reader{schema: s, b: b}
	if err := r.item(&grammar{words: s[rule]}); err != nil {
		return fmt.Errorf("%s: %w", rule, err)
	}
	if len(r.b) > 0 {
		return fmt.Errorf("%s: %d bytes after it", rule, len(r.b))
	}
	return nil
}

// A grammar walks over the words of a type.
type grammar struct{ words []string }

func (p *grammar) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *grammar) next() string {
	w := p.peek()
	p.words = p.words[min(1, len(p.words)):]
	return w
}

func (p *grammar) take(w string) bool {
	if p.peek() == w {
		p.next()
		return true
	}
	return false
}

// skip passes over one type without an item.
func (p *grammar) skip() {
	depth := 0
	for {
		switch w := p.peek(); {
		case depth == 0 && (w == "," || w == "]" || w == "}" || w == ")" || w == "=>" || w == ""):
			return
		case w == "[" || w == "{" || w == "(":
			depth++
		case w == "]" || w == "}" || w == ")":
			depth--
		}
		p.next()
	}
}

// A reader takes items off bytes. It knows only what the encoding of records uses.
type reader struct {
	schema
	b []byte
}

// head reads an item's first bytes; the argument must be in its shortest form.
func (r *reader) head() (major byte, arg uint64, err error) {
	if len(r.b) == 0 {
		return 0, 0, fmt.Errorf("ends early")
	}
	major, info := r.b[0]>>5, r.b[0]&31
	r.b = r.b[1:]
	if info < 24 {
		return major, uint64(info), nil
	}
	n := 1 << (info - 24)
	if info > 27 || len(r.b) < n {
		return 0, 0, fmt.Errorf("bad length %d", info)
	}
	for _, x := range r.b[:n] {
		arg = arg<<8 | uint64(x)
	}
	r.b = r.b[n:]
	least := map[int]uint64{1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}[n]
	if arg < least && major != 7 {
		return 0, 0, fmt.Errorf("%d in %d bytes", arg, n)
	}
	return major, arg, nil
}

func (r *reader) item(p *grammar) error {
	if len(r.b) > 0 && r.b[0] == 0xf6 {
		p.skipTo("nil")
	}
	w := p.next()
	if rule, ok := r.schema[w]; ok {
		return r.item(&grammar{words: rule})
	}
	switch w {
	case "#6.18":
		return r.tagged(p)
	case "[":
		return r.array(p)
	case "{":
		return r.table(p)
	}
	major, arg, err := r.head()
	if err != nil {
		return err
	}
	return r.plain(w, p, major, arg)
}

// skipTo passes over alternatives to the one that is wanted.
func (p *grammar) skipTo(want string) {
	rest := slices.Clone(p.words)
	for len(rest) > 0 && rest[0] != "," && rest[0] != "]" && rest[0] != "}" {
		if rest[0] == want {
			p.words = rest
			return
		}
		rest = rest[1:]
	}
}

func (r *reader) plain(w string, p *grammar, major byte, arg uint64) error {
	switch want := map[string]byte{"uint": 0, "bstr": 2, "tstr": 3, "bool": 7, "float": 7, "nil": 7}; {
	case w == "int" && major <= 1:
		return nil
	case strings.HasPrefix(w, `"`):
		s, err := r.take(arg)
		if major != 3 || err != nil || strconv.Quote(string(s)) != w {
			return fmt.Errorf("want %s, have %q %v", w, s, err)
		}
		return nil
	case w[0] == '-' || w[0] >= '0' && w[0] <= '9':
		n, _ := strconv.ParseInt(w, 10, 64)
		if n >= 0 && (major != 0 || arg != uint64(n)) || n < 0 && (major != 1 || arg != uint64(-1-n)) {
			return fmt.Errorf("want %s, have %d %d", w, major, arg)
		}
		return nil
	case want[w] != major || w == "int":
		return fmt.Errorf("want %s, have major type %d", w, major)
	}
	var held []byte
	var err error
	if w == "bstr" || w == "tstr" {
		if held, err = r.take(arg); err != nil {
			return err
		}
	}
	switch {
	case p.take(".size"):
		n, _ := strconv.ParseUint(p.next(), 10, 64)
		if w == "bstr" && uint64(len(held)) != n || w == "uint" && n < 8 && arg>>(8*n) != 0 {
			return fmt.Errorf("%s of another size than %d", w, n)
		}
	case p.take(".cbor"):
		inner := &reader{r.schema, held}
		if err := inner.item(p); err != nil || len(inner.b) > 0 {
			return fmt.Errorf("inside: %v, %d bytes left", err, len(inner.b))
		}
	}
	p.alternatives()
	return nil
}

// alternatives passes over those that are not needed any more.
func (p *grammar) alternatives() {
	for p.take("/") {
		p.skip()
	}
}

func (r *reader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.b)) {
		return nil, fmt.Errorf("ends early")
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out, nil
}

func (r *reader) tagged(p *grammar) error {
	if major, tag, err := r.head(); err != nil || major != 6 || tag != 18 {
		return fmt.Errorf("want tag 18, have %d %d %v", major, tag, err)
	}
	p.take("(")
	err := r.item(p)
	p.take(")")
	return err
}

func (r *reader) array(p *grammar) error {
	major, n, err := r.head()
	if err != nil || major != 4 {
		return fmt.Errorf("want an array, have %d %v", major, err)
	}
	many := p.take("*")
	each := slices.Clone(p.words)
	for range n {
		if many {
			p.words = slices.Clone(each)
		}
		if len(p.words) > 1 && p.words[1] == ":" {
			p.words = p.words[2:]
		}
		if err := r.item(p); err != nil {
			return err
		}
		p.take(",")
	}
	if many && n == 0 {
		p.skip()
	}
	if !p.take("]") {
		return fmt.Errorf("an array of %d: want %v", n, p.words)
	}
	p.alternatives()
	return nil
}

func (r *reader) table(p *grammar) error {
	major, n, err := r.head()
	if err != nil || major != 5 {
		return fmt.Errorf("want a map, have %d %v", major, err)
	}
	if p.take("*") {
		return r.textMap(p, n)
	}
	left := n
	for !p.take("}") {
		optional := p.take("?")
		key, err := strconv.ParseUint(p.next(), 10, 64)
		if err != nil || !p.take(":") {
			return fmt.Errorf("the schema has no key: %v", err)
		}
		if left > 0 && len(r.b) > 0 && r.b[0] == headOf(key)[0] && (key < 24 || r.b[1] == byte(key)) {
			r.b = r.b[len(headOf(key)):]
			left--
			if err := r.item(p); err != nil {
				return fmt.Errorf("key %d: %w", key, err)
			}
		} else if !optional {
			return fmt.Errorf("key %d is missing", key)
		}
		p.skip()
		p.take(",")
	}
	if left > 0 {
		return fmt.Errorf("%d keys that the schema does not know", left)
	}
	p.alternatives()
	return nil
}

func headOf(key uint64) []byte {
	if key < 24 {
		return []byte{byte(key)}
	}
	return []byte{24, byte(key)}
}

func (r *reader) textMap(p *grammar, n uint64) error {
	entry := slices.Clone(p.words)
	for range n {
		p.words = slices.Clone(entry)
		if err := r.item(p); err != nil {
			return err
		}
		if !p.take("=>") {
			return fmt.Errorf("no value")
		}
		if err := r.item(p); err != nil {
			return err
		}
	}
	for p.peek() != "}" {
		p.next()
	}
	p.next()
	p.alternatives()
	return nil
}

// TestSchemaRefuses holds that the schema is not satisfied by anything: every vector with
// a key more, a key less or another length is refused.
func TestSchemaRefuses(t *testing.T) {
	s := readSchema(t)
	window := func(b ...byte) error { return s.check("Window", b) }
	if err := window(0xa2, 1, 1, 2, 2); err != nil {
		t.Errorf("a window: %v", err)
	}
	for name, b := range map[string][]byte{
		"a key less": {0xa1, 1, 1}, "a key more": {0xa3, 1, 1, 2, 2, 3, 3}, "unsorted": {0xa2, 2, 2, 1, 1}, "text": {0xa2, 1, 0x61, 'x', 2, 2},
		"long": {0xa2, 1, 0x18, 1, 2, 2}, "an array": {0x82, 1, 2}, "cut": {0xa2, 1, 1, 2}, "more": {0xa2, 1, 1, 2, 2, 0},
	} {
		if window(b...) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, v := range readVectors(t) {
		b := v.bytes(t)
		if rule, _ := openAny(v.Name, b); s.check(rule, append(b[:len(b):len(b)], 0)) == nil || s.check(rule, b[:len(b)-1]) == nil {
			t.Errorf("%s: accepted with another length", v.Name)
		}
	}
}

func hashOf(b []byte) Ref { return sha256.Sum256(b) }

func sorted(m map[string][]byte) []string { return slices.Sorted(maps.Keys(m)) }

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
