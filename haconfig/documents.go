package haconfig

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
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
		if e := i.readDocuments(text, line); e != nil {
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

// nextDocument returns the text up to the next line that begins a document, and
// how many lines it and that line are. The error is io.EOF with the last one.
func nextDocument(file *bufio.Reader) (text []byte, lines int, err error) {
	for {
		line, err := file.ReadBytes('\n')
		if len(line) > 0 {
			lines++
		}
		begins := bytes.Equal(bytes.TrimRight(line, " \t\r\n"), []byte("---"))
		if !begins {
			text = append(text, line...)
		}
		if begins || err != nil {
			return text, lines, err
		}
	}
}

// readDocuments reads what stands between two such lines; usually it is one
// document.
func (i *Inventory) readDocuments(text []byte, line int) error {
	var wrong []error
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return errors.Join(wrong...)
		}
		if err != nil { // the decoder does not find the next one
			return errors.Join(append(wrong, fmt.Errorf("the document at line %d: %w", line, err))...)
		}
		wrong = append(wrong, i.readDocument(&document))
	}
}

// readDocument takes an object or a list of objects; anything else is neither.
func (i *Inventory) readDocument(object *yaml.Node) error {
	switch {
	case object.Kind == yaml.DocumentNode && len(object.Content) == 1:
		return i.readDocument(object.Content[0])
	case object.Kind != yaml.MappingNode:
		return nil
	}
	if items := field(object, "items"); items != nil && items.Kind == yaml.SequenceNode {
		var wrong []error
		for _, item := range items.Content {
			wrong = append(wrong, i.readDocument(item))
		}
		return errors.Join(wrong...)
	}
	kind := textAt(object, "kind")
	if !matters(kindOf(textAt(object, "apiVersion"), kind)) {
		return nil
	}
	textKeys(object)
	var value any
	err := object.Decode(&value)
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(value)
	}
	if err != nil {
		metadata := field(object, "metadata")
		return fmt.Errorf("%s: %w", named(kind, textAt(metadata, "namespace"), textAt(metadata, "name")), err)
	}
	return i.Add(raw)
}

// textKeys makes text of all keys, as kubectl does: YAML knows numbers and truth
// values for keys, JSON does not.
func textKeys(node *yaml.Node) {
	for k, child := range node.Content {
		if node.Kind == yaml.MappingNode && k%2 == 0 && child.Kind == yaml.ScalarNode && child.Tag != "!!merge" {
			child.Tag = "!!str"
		}
		textKeys(child)
	}
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
