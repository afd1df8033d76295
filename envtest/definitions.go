package envtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"
)

// CRDInstallOptions selects CustomResourceDefinitions.
type CRDInstallOptions struct {
	Scheme *runtime.Scheme // as Environment.Scheme
	Paths  []string        // files, and directories of files, with definitions in YAML or JSON
	CRDs   []*apiextensionsv1.CustomResourceDefinition

	ErrorIfPathMissing bool // makes a missing path an error; by default it is ignored

	MaxTime         time.Duration // ignored: a resource is served when its definition has been written
	PollInterval    time.Duration // ignored
	CleanUpAfterUse bool          // ignored: Environment.Stop ends the cluster
	// WebhookOptions has where conversion webhooks are if its IgnoreSchemeConvertible is true.
	WebhookOptions WebhookInstallOptions
}

// InstallCRDs creates the selected definitions, or updates those that exist, and returns them as
// the API server has stored them. When it returns, their resources are served. The configuration is
// that of a running Environment or of a cluster that serves definitions.
func InstallCRDs(config *rest.Config, options CRDInstallOptions) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	options.CRDs = slices.Clone(options.CRDs)
	if err := ReadCRDFiles(&options); err != nil {
		return nil, err
	}
	goTypes := options.Scheme
	if goTypes == nil {
		goTypes = scheme.Scheme
	}
	for _, definition := range options.CRDs {
		adaptConversion(definition, goTypes, &options.WebhookOptions)
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("install definitions: %w", err)
	}
	for _, definition := range options.CRDs {
		if err := write(client, definition); err != nil {
			return options.CRDs, fmt.Errorf("install definition %q: %w", definition.Name, err)
		}
	}
	return options.CRDs, WaitForCRDs(config, options.CRDs, options)
}

// write creates a definition, or updates the existing one, and stores the answer in it.
func write(client clientset.Interface, definition *apiextensionsv1.CustomResourceDefinition) error {
	stored, err := put(definition.DeepCopy(), client.ApiextensionsV1().CustomResourceDefinitions())
	if err != nil {
		return err
	}
	is := definition.TypeMeta
	stored.DeepCopyInto(definition)
	definition.TypeMeta = is
	return nil
}

// put creates an object, or updates the one that exists, and returns the answer. It changes metadata of obj, which may be
// from an environment that was stopped.
func put[T metav1.Object](obj T, client interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
	Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
},
) (stored T, err error) {
	ctx := context.Background()
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		stored, err = client.Get(ctx, obj.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			obj.SetResourceVersion("")
			obj.SetUID("")
			stored, err = client.Create(ctx, obj, metav1.CreateOptions{})
		case err == nil:
			obj.SetResourceVersion(stored.GetResourceVersion())
			obj.SetUID(stored.GetUID())
			stored, err = client.Update(ctx, obj, metav1.UpdateOptions{})
		}
		return err
	})
	return stored, err
}

// UninstallCRDs deletes the selected definitions, and with them all their objects. Definitions that
// do not exist are ignored.
func UninstallCRDs(config *rest.Config, options CRDInstallOptions) error {
	options.CRDs = slices.Clone(options.CRDs)
	if err := ReadCRDFiles(&options); err != nil {
		return err
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("uninstall definitions: %w", err)
	}
	for _, definition := range options.CRDs {
		definitions := client.ApiextensionsV1().CustomResourceDefinitions()
		err := definitions.Delete(context.Background(), definition.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("uninstall definition %q: %w", definition.Name, err)
		}
	}
	return nil
}

// WaitForCRDs returns when discovery shows the resources of the definitions, in all their served
// versions.
//
// Differs: it reads once. The API server of this module serves a resource as soon as its definition
// has been written, or not at all: for example if another definition has its name.
func WaitForCRDs(
	config *rest.Config, definitions []*apiextensionsv1.CustomResourceDefinition, _ CRDInstallOptions,
) error {
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("wait for definitions: %w", err)
	}
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			if !version.Served {
				continue
			}
			// By its path, because the type of discovery clients depends on the version of
			// client-go.
			var list metav1.APIResourceList
			err := client.ApiextensionsV1().RESTClient().Get().
				AbsPath("/apis", definition.Spec.Group, version.Name).Do(context.Background()).Into(&list)
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("wait for definition %q: %w", definition.Name, err)
			}
			isServed := func(r metav1.APIResource) bool { return r.Name == definition.Spec.Names.Plural }
			if !slices.ContainsFunc(list.APIResources, isServed) {
				return fmt.Errorf("definition %q: version %s is not served: %s",
					definition.Name, version.Name, reasonOf(definition))
			}
		}
	}
	return nil
}

// reasonOf returns what the conditions say of a definition that is not served.
func reasonOf(definition *apiextensionsv1.CustomResourceDefinition) string {
	for _, c := range definition.Status.Conditions {
		if c.Status != apiextensionsv1.ConditionTrue && c.Message != "" {
			return c.Message
		}
	}
	return "not installed"
}

// ReadCRDFiles adds the definitions in the files of options.Paths to options.CRDs. In directories
// it reads files that end in .yaml, .yml or .json. Other documents are skipped. Of two definitions
// with the same name, the later one is used.
func ReadCRDFiles(options *CRDInstallOptions) error {
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, path := range options.Paths {
		files, err := filesAt(path)
		if errors.Is(err, fs.ErrNotExist) && !options.ErrorIfPathMissing {
			continue
		}
		if err != nil {
			return fmt.Errorf("read definitions: %w", err)
		}
		for _, file := range files {
			definitions, err := readFile(file)
			if err != nil {
				return fmt.Errorf("read definitions: %s: %w", file, err)
			}
			found = append(found, definitions...)
		}
	}
	options.CRDs = append(options.CRDs, merge(nil, found, definitionName)...)
	return nil
}

// extensions are those of files with definitions.
var extensions = []string{".yaml", ".yml", ".json"}

// filesAt returns a file itself, and the files of a directory by name.
func filesAt(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	all := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path) // sorted by name
		if err != nil {
			return nil, err
		}
		all = nil
		for _, e := range entries {
			if !e.IsDir() {
				all = append(all, filepath.Join(path, e.Name()))
			}
		}
	}
	return slices.DeleteFunc(all, func(f string) bool { return !slices.Contains(extensions, filepath.Ext(f)) }), nil
}

// readFile returns the definitions in a file.
func readFile(name string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var found []*apiextensionsv1.CustomResourceDefinition
	err := readDocuments(name, func(is metav1.TypeMeta, document []byte) error {
		if is.Kind != "CustomResourceDefinition" {
			return nil
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(document, definition); err != nil {
			return err
		}
		if definition.Spec.Group != "" && definition.Spec.Names.Kind != "" {
			found = append(found, definition)
		}
		return nil
	})
	return found, err
}

// readDocuments calls f for each document in a file, with its type, which is empty in a kustomization.yaml for example.
func readDocuments(name string, f func(is metav1.TypeMeta, document []byte) error) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var is metav1.TypeMeta
		if err := yaml.Unmarshal(document, &is); err != nil {
			return err
		}
		if err := f(is, document); err != nil {
			return err
		}
	}
}

func definitionName(definition *apiextensionsv1.CustomResourceDefinition) string {
	return definition.Name
}

// merge returns the items of both lists in order. Of several items with the same name, the last one
// takes the place of the first.
func merge[T any](first, second []T, name func(T) string) []T {
	var merged []T
	at := map[string]int{}
	for _, item := range slices.Concat(first, second) {
		if i, ok := at[name(item)]; ok {
			merged[i] = item
			continue
		}
		at[name(item)] = len(merged)
		merged = append(merged, item)
	}
	return merged
}
