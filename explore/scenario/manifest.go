package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/cluster"
)

// manifestDecoder rejects unknown fields.
var manifestDecoder = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// manifestOf returns the manifest of an apply act.
func manifestOf(text string) (manifest string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "apply")
	if !ok || rest != "" && !strings.ContainsAny(rest[:1], " \t\r\n") {
		return "", false
	}
	return strings.TrimSpace(rest), true
}

// manifestFiles are the endings of the names of files with manifests.
var manifestFiles = []string{".yaml", ".yml", ".json"}

// isManifestFile reports whether a manifest is the path of a file.
func isManifestFile(manifest string) bool {
	if strings.ContainsAny(manifest, " \t\r\n{") {
		return false
	}
	for _, ending := range manifestFiles {
		if strings.HasSuffix(manifest, ending) {
			return true
		}
	}
	return false
}

// parseApply parses what follows "apply".
func parseApply(manifest string) (Act, error) {
	if isManifestFile(manifest) {
		return Act{verb: "apply", file: &manifestFile{path: manifest}}, nil
	}
	objects, err := parseManifest(manifest)
	return Act{verb: "apply", args: objects}, err
}

// A manifestFile is a file of an apply act. It is read once: all runs of a scenario apply the same.
type manifestFile struct {
	path    string // as in the text
	once    sync.Once
	loaded  atomic.Bool
	objects []string // see parseManifest
	err     error
}

// load reads the file. A relative path is one from the directory dir.
func (f *manifestFile) load(dir string) ([]string, error) {
	f.once.Do(func() {
		data, err := os.ReadFile(within(dir, f.path))
		if err == nil {
			f.objects, err = parseManifest(string(data))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%s: %w", f.path, err)
		}
		f.err = err
		f.loaded.Store(true)
	})
	return f.objects, f.err
}

// at returns the same file with another path in the text.
func (f *manifestFile) at(path string) *manifestFile {
	other := &manifestFile{path: path}
	if f.loaded.Load() {
		other.once.Do(func() { other.objects, other.err = f.objects, f.err })
		other.loaded.Store(true)
	}
	return other
}

// within returns a path of a scenario's text as one from the working directory.
func within(dir, path string) string {
	if dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// parseManifest returns the objects of a manifest in YAML or JSON, each as JSON in one line.
func parseManifest(manifest string) ([]string, error) {
	var objects []string
	d := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), len(manifest)+1)
	for {
		var raw runtime.RawExtension
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		text, err := yaml.YAMLToJSON(raw.Raw) // sorts the keys
		if err != nil {
			return nil, err
		}
		if len(raw.Raw) == 0 || string(text) == "null" {
			continue // an empty document
		}
		one, err := splitList(text)
		if err != nil {
			return nil, err
		}
		for _, text := range one {
			if err := checkManifest(text); err != nil {
				return nil, err
			}
		}
		objects = append(objects, one...)
	}
	if len(objects) == 0 {
		return nil, errors.New("no object in the manifest")
	}
	return objects, nil
}

// splitList returns the items of a v1 List, and any other object itself.
func splitList(text []byte) ([]string, error) {
	var list struct {
		APIVersion, Kind string
		Items            []json.RawMessage
	}
	if err := json.Unmarshal(text, &list); err != nil || list.Kind != "List" || list.APIVersion != "v1" {
		return []string{string(text)}, nil //nolint:nilerr // checkManifest returns the error
	}
	var items []string
	for _, item := range list.Items {
		sorted, err := yaml.YAMLToJSON(item)
		if err != nil {
			return nil, err
		}
		items = append(items, string(sorted))
	}
	return items, nil
}

// checkManifest returns an error for an object that no server can create. Fields of objects that
// client-go does not know, such as custom ones, are checked by the server.
func checkManifest(text string) error {
	obj, err := decodeManifest(text)
	if err != nil {
		return err
	}
	_, _, err = manifestDecoder.Decode([]byte(text), nil, nil)
	if err != nil && (!runtime.IsNotRegisteredError(err) || obj.GroupVersionKind().Group == "") {
		return err
	}
	if obj.GetName() == "" && obj.GetGenerateName() == "" {
		return fmt.Errorf("%s without a name", obj.GetKind())
	}
	return nil
}

// decodeManifest returns an object of a manifest.
func decodeManifest(text string) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		return nil, err
	}
	if obj.GetAPIVersion() == "" {
		return nil, fmt.Errorf("%s without an apiVersion", obj.GetKind())
	}
	return obj, nil
}

// apply creates the objects of the manifest, or patches those that exist.
func (a Act) apply(ctx context.Context, c *cluster.Cluster) error {
	objects := a.args
	if a.file != nil {
		var err error
		if objects, err = a.file.load(""); err != nil {
			return err
		}
	}
	for _, text := range objects {
		obj, err := decodeManifest(text)
		if err != nil {
			return err
		}
		target, err := targetOfKind(c, obj.GroupVersionKind(), obj.GetNamespace(), obj.GetName())
		if err != nil {
			return err
		}
		obj.SetNamespace(target.namespace)
		stored, exists := target.stored()
		if obj.GetName() == "" || !exists || stored.GetDeletionTimestamp() != nil {
			err = target.create(ctx, obj)
		} else {
			err = target.patch(ctx, []byte(text))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
