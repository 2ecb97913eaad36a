package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxJobFile bounds job.yaml in bytes.
const maxJobFile = 1 << 20

// readJobFile reads the settings of a job file. Its keys are submit's options and
// `module`; relative paths start from the file's folder.
func readJobFile(path string) ([]setting, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("", "submit: --job: %v", plain(err))
	}
	defer f.Close()
	b, err := readAll(f, maxJobFile)
	if err != nil {
		return nil, usage("", "submit: --job: %s: %v", path, plain(err))
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return parseJobFile(path, dir, b)
}

func parseJobFile(path, dir string, b []byte) ([]setting, error) {
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(b))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, usage("", "submit: %s: %v", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, usage("", "submit: %s: want one YAML document", path)
	}
	f := jobFile{path: path, dir: dir, seen: map[string]bool{}}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, f.refuse(root, "want keys and values, such as shards: 4")
	}
	for i := 0; i < len(root.Content); i += 2 {
		if err := f.entry(root.Content[i], root.Content[i+1]); err != nil {
			return nil, err
		}
	}
	return f.settings, nil
}

type jobFile struct {
	path, dir string
	seen      map[string]bool
	settings  []setting
}

func (f *jobFile) refuse(n *yaml.Node, format string, a ...any) error {
	return usage("meshctl submit --help", "submit: %s:%d: %s", f.path, n.Line, fmt.Sprintf(format, a...))
}

func (f *jobFile) entry(key, value *yaml.Node) error {
	o, ok := optionNamed(key.Value)
	if key.Value == "module" {
		o, ok = option{name: "module"}, true
	}
	switch {
	case key.Kind != yaml.ScalarNode || !ok:
		names := []string{"module"}
		for _, o := range options {
			names = append(names, o.name)
		}
		if s := nearest(key.Value, names); s != "" {
			return f.refuse(key, "unknown key %q: did you mean %s?", key.Value, s)
		}
		return f.refuse(key, "unknown key %q", key.Value)
	case f.seen[o.name]:
		return f.refuse(key, "%s is given twice", o.name)
	}
	f.seen[o.name] = true
	switch {
	case value.Kind == yaml.MappingNode && o.keyed:
		for i := 0; i < len(value.Content); i += 2 {
			k, v := value.Content[i], value.Content[i+1]
			if strings.Contains(k.Value, "=") {
				return f.refuse(k, "%s: %q: a name has no =", o.name, k.Value)
			}
			if err := f.add(o, v, k.Value+"="); err != nil {
				return err
			}
		}
		return nil
	case value.Kind == yaml.SequenceNode && o.many:
		for _, v := range value.Content {
			if err := f.add(o, v, ""); err != nil {
				return err
			}
		}
		return nil
	}
	return f.add(o, value, "")
}

func (f *jobFile) add(o option, v *yaml.Node, before string) error {
	if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
		return f.refuse(v, "%s: want a plain value", o.name)
	}
	text := before + v.Value
	if o.keyed && !strings.Contains(text, "=") {
		return f.refuse(v, "%s: %q: want NAME=VALUE, or a mapping", o.name, text)
	}
	f.settings = append(f.settings, setting{option: o.name, text: text, dir: f.dir,
		where: fmt.Sprintf("submit: %s:%d: %s", f.path, v.Line, o.name)})
	return nil
}

// writeJobFile writes settings as a job file that means the same wherever it lies.
func writeJobFile(w io.Writer, settings []setting) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	at := map[string]*yaml.Node{}
	for _, s := range settings {
		o, _ := optionNamed(s.option)
		text, value := s.absolute(), at[o.name]
		switch {
		case !o.many:
			root.Content = append(root.Content, scalar(s.option), scalar(text))
			continue
		case value == nil:
			value = &yaml.Node{Kind: yaml.SequenceNode}
			if o.keyed {
				value.Kind = yaml.MappingNode
			}
			at[o.name] = value
			root.Content = append(root.Content, scalar(s.option), value)
		}
		if k, v, ok := strings.Cut(text, "="); ok && o.keyed {
			value.Content = append(value.Content, scalar(k), scalar(v))
		} else {
			value.Content = append(value.Content, scalar(text))
		}
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return err
	}
	return e.Close()
}

// absolute is the text with paths made so.
func (s setting) absolute() string {
	switch {
	case s.option == "module" && s.text != stdinName:
		return from(s.dir, s.text)
	case s.option == "input":
		k, path, _ := strings.Cut(s.text, "=")
		if path != stdinName {
			path = from(s.dir, path)
		}
		return k + "=" + path
	}
	return s.text
}

func scalar(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}
