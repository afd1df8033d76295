package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake"
)

// fieldManager owns the fields that Apply sets.
const fieldManager = "volsim"

// Apply creates or changes the objects of a manifest, as kubectl apply --server-side with
// --force-conflicts does: fields of an earlier Apply that the manifest no longer has are removed.
// The manifest has documents in YAML, separated by "---", or in JSON. An object may be of any kind
// that the server serves, or a List. Without a namespace it is in namespace default. A status is
// ignored if the resource has the subresource.
//
// Nothing is applied if a document cannot be parsed. The error names the document and its line.
//
// Differs: Apply stops at the first object that the server rejects, and its field manager is "volsim".
//
// Upstream: kubectl/pkg/cmd/apply (v1.36).
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	documents, err := parseDocuments(manifest)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	for _, d := range documents {
		for _, obj := range d.objects {
			if err := c.applyObject(ctx, obj); err != nil {
				return fmt.Errorf("apply: %s: %w", d.place(), err)
			}
		}
	}
	return nil
}

func (c *Cluster) applyObject(ctx context.Context, obj *unstructured.Unstructured) error {
	kind := obj.GroupVersionKind()
	resource, err := c.resourceOf(kind)
	if err != nil {
		return err
	}
	if obj.GetName() == "" {
		return fmt.Errorf("%s without metadata.name", kind.Kind)
	}
	if resource.Namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	what := fmt.Sprintf("%s %s", kind.Kind, objectKey(obj.GetNamespace(), obj.GetName()))
	data, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	force := true
	client := c.server.Client(c.host.ExternalCaller()).Dynamic().Resource(schema.GroupVersionResource{
		Group: kind.Group, Version: kind.Version, Resource: resource.Name,
	}).Namespace(obj.GetNamespace())
	_, err = client.Patch(ctx, obj.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
		FieldManager: fieldManager, Force: &force, FieldValidation: metav1.FieldValidationStrict,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// resourceOf returns the resource of a kind.
func (c *Cluster) resourceOf(kind schema.GroupVersionKind) (fake.APIResource, error) {
	for _, r := range c.server.Resources() {
		if r.Group == kind.Group && r.Kind == kind.Kind {
			return r, nil
		}
	}
	if kind.Kind == "CustomResourceDefinition" {
		return fake.APIResource{}, fmt.Errorf("%s: the server has no custom resources; call crd.Serve, or use Config.CRDDirectoryPaths", kind.Kind)
	}
	var others []string
	for _, r := range c.server.Resources() {
		if r.Kind == kind.Kind {
			others = append(others, schema.GroupVersion{Group: r.Group, Version: r.Version}.String())
		}
	}
	if slices.Sort(others); len(others) > 0 {
		return fake.APIResource{}, fmt.Errorf("no kind %q in %s (have %s)", kind.Kind, kind.GroupVersion(), strings.Join(others, ", "))
	}
	return fake.APIResource{}, fmt.Errorf("no kind %q in %s: not served by the API server", kind.Kind, kind.GroupVersion())
}

// A document is one of a manifest.
type document struct {
	number, line int // from 1
	objects      []*unstructured.Unstructured
}

func (d document) place() string { return fmt.Sprintf("document %d at line %d", d.number, d.line) }

// parseDocuments returns the documents of a manifest that are not empty.
func parseDocuments(manifest string) ([]document, error) {
	var documents []document
	lines := strings.SplitAfter(manifest, "\n")
	for start := 0; start < len(lines); {
		end := start
		for end < len(lines) && !isSeparator(lines[end]) {
			end++
		}
		if err := appendDocuments(&documents, lines[start:end], start); err != nil {
			return nil, err
		}
		start = end + 1
	}
	if len(documents) == 0 {
		return nil, errors.New("no object in the manifest")
	}
	return documents, nil
}

// isSeparator reports whether a line separates documents.
func isSeparator(line string) bool {
	rest, ok := strings.CutPrefix(line, "---")
	rest = strings.TrimSpace(rest)
	return ok && (rest == "" || strings.HasPrefix(rest, "#"))
}

// appendDocuments parses the lines between two separators: one document in YAML, or several in JSON.
// before is the number of lines before them.
func appendDocuments(documents *[]document, lines []string, before int) error {
	first := slices.IndexFunc(lines, func(line string) bool {
		line = strings.TrimSpace(line)
		return line != "" && !strings.HasPrefix(line, "#")
	})
	if first < 0 {
		return nil
	}
	before += first
	text := strings.Join(lines[first:], "")
	parts, err := jsonParts(text, before)
	if err != nil && (!strings.HasPrefix(strings.TrimSpace(text), "{") || isYAML(text)) {
		// The empty lines make the line numbers of errors those of the manifest.
		parts = []part{{line: before + 1}}
		parts[0].data, err = yaml.YAMLToJSONStrict([]byte(strings.Repeat("\n", before) + text))
	}
	for _, p := range parts {
		d := document{number: len(*documents) + 1, line: p.line}
		if err == nil || p.data != nil {
			var wrong error
			if d.objects, wrong = parseObjects(p.data); wrong != nil {
				return fmt.Errorf("%s: %w", d.place(), wrong)
			}
			*documents = append(*documents, d)
			continue
		}
		return fmt.Errorf("%s: %s", d.place(), shortened(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")))
	}
	return nil
}

// isYAML reports whether a text that begins like JSON is YAML, such as {kind: Pod}.
func isYAML(text string) bool {
	_, err := yaml.YAMLToJSONStrict([]byte(text))
	return err == nil
}

// A part is the text of a document in JSON, nil if it cannot be parsed.
type part struct {
	line int
	data []byte
}

// jsonParts returns the documents of a stream. With an error, the last one has no data.
func jsonParts(text string, before int) ([]part, error) {
	var parts []part
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		offset := int(decoder.InputOffset())
		offset += len(text[offset:]) - len(strings.TrimLeft(text[offset:], " \t\r\n"))
		p := part{line: before + 1 + strings.Count(text[:offset], "\n")}
		err := decoder.Decode((*json.RawMessage)(&p.data))
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		parts = append(parts, p)
		if err != nil {
			return parts, err
		}
	}
}

// parseObjects returns the objects of a document in JSON.
func parseObjects(data []byte) ([]*unstructured.Unstructured, error) {
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return nil, nil
	}
	var head metav1.TypeMeta
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, errors.New("not an object")
	}
	switch {
	case head.Kind == "":
		return nil, errors.New("no kind")
	case head.APIVersion == "":
		return nil, fmt.Errorf("%s without apiVersion", head.Kind)
	}
	obj, _, err := unstructured.UnstructuredJSONScheme.Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	switch o := obj.(type) {
	case *unstructured.UnstructuredList:
		objects := make([]*unstructured.Unstructured, len(o.Items))
		for i := range o.Items {
			objects[i] = &o.Items[i]
		}
		return objects, nil
	default:
		return []*unstructured.Unstructured{obj.(*unstructured.Unstructured)}, nil
	}
}
