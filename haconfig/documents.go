package haconfig

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
	kubeyaml "sigs.k8s.io/yaml"
)

// maxManifests bounds how many documents are read of a file.
const maxManifests = 100_000

// ReadManifests reads documents of YAML or JSON, and lists of objects in them. A
// document that advice does not depend on is skipped, even if its content is invalid.
// A document that cannot be read does not stop the others from being read: the
// returned error joins one for each, which names the object, or the line where it has
// no name.
func (i *Inventory) ReadManifests(r io.Reader) error {
	file := bufio.NewReader(r)
	var wrong []error
	for n, line := 0, 1; ; n++ {
		if n == maxManifests {
			return errors.Join(append(wrong, fmt.Errorf("more than %d documents", maxManifests))...)
		}
		text, lines, err := nextDocument(file)
		if e := i.readText(text, line); e != nil {
			wrong = append(wrong, e)
		}
		line += lines
		switch {
		case errors.Is(err, io.EOF):
			return errors.Join(wrong...)
		case err != nil:
			return errors.Join(append(wrong, err)...)
		}
	}
}

// nextDocument returns the text up to the next line that begins a document, and how
// many lines it is. The error is io.EOF with the last one.
func nextDocument(file *bufio.Reader) (text []byte, lines int, err error) {
	for {
		line, err := file.ReadBytes('\n')
		text = append(text, line...)
		if len(line) > 0 {
			lines++
		}
		if err != nil {
			return text, lines, err
		}
		next, _ := file.Peek(4) // less at the end, which the next line shows
		if bytes.HasPrefix(next, []byte("---")) && len(bytes.TrimRight(next, " \t\r\n")) == 3 {
			return text, lines, nil
		}
	}
}

// readText reads the document that begins at a line.
func (i *Inventory) readText(text []byte, line int) error {
	documents := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	err := documents.Decode(&document)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("the document at line %d: %w", line, err)
	}
	more := documents.Decode(&second)
	if more == nil {
		more = errors.New("another one begins in it, without a line for its ---")
	}
	if err = i.readDocument(document.Content[0], text); !errors.Is(more, io.EOF) {
		err = errors.Join(err, fmt.Errorf("the document at line %d: %w", line, more))
	}
	return err
}

// readDocument takes an object or a list of objects; anything else is neither. JSON is
// made of its text as kubectl does: of two keys the last counts, and "yes" is true.
func (i *Inventory) readDocument(object *yaml.Node, text []byte) error {
	kind := textAt(object, "kind")
	if field(object, "items") == nil && !matters(kindOf(textAt(object, "apiVersion"), kind)) {
		return nil
	}
	raw, err := kubeyaml.YAMLToJSON(text)
	if err != nil {
		metadata := field(object, "metadata")
		return fmt.Errorf("%s: %w", named(kind, textAt(metadata, "namespace"), textAt(metadata, "name")), err)
	}
	return i.addAll(raw)
}

// addAll adds an object in JSON, or those of a list.
func (i *Inventory) addAll(raw []byte) (wrong error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	switch {
	case !bytes.HasPrefix(raw, []byte("{")):
		return nil
	case unmarshal(raw, &list) != nil || list.Items == nil:
		return i.Add(raw)
	}
	for _, item := range list.Items {
		wrong = errors.Join(wrong, i.addAll(item))
	}
	return wrong
}

// field returns a member of a mapping, nil if there is none.
func field(mapping *yaml.Node, name string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for k := 0; k+1 < len(mapping.Content); k += 2 {
		if mapping.Content[k].Value != name {
			continue
		}
		value := mapping.Content[k+1]
		if value.Kind == yaml.AliasNode {
			return value.Alias
		}
		return value
	}
	return nil
}

// textAt returns the text of a member, "" if it is none.
func textAt(mapping *yaml.Node, name string) string {
	if value := field(mapping, name); value != nil && value.Kind == yaml.ScalarNode {
		return value.Value
	}
	return ""
}
