package crd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake"
)

// errNotServed means that Serve was not called.
var errNotServed = errors.New("the server does not serve CustomResourceDefinitions; call crd.Serve")

// Install creates the definitions in a stream of YAML or JSON documents, in order. It skips other
// documents. When it returns, the resources are served. The client must be one of a server that
// Serve was called for.
func Install(ctx context.Context, c *fake.Clientset, documents io.Reader) error {
	client, ok := c.Resource(schema.GroupVersionResource{
		Group: group, Version: "v1", Resource: "customresourcedefinitions",
	}, "")
	if !ok {
		return errNotServed
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(documents))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read definitions: %w", err)
		}
		obj := &fake.CustomObject{}
		data, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return fmt.Errorf("read definitions: %w", err)
		}
		if string(data) == "null" {
			continue
		}
		if err := obj.UnmarshalJSON(data); err != nil {
			return fmt.Errorf("read definitions: %w", err)
		}
		if obj.GroupVersionKind() != client.GroupVersionKind() {
			continue
		}
		if _, err := client.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create definition: %w", err)
		}
	}
}

// InstallFS is like Install for the files of a directory that end in .yaml, in the order of their
// names. An example is os.DirFS of the folder config/crd of the module
// github.com/kubernetes-csi/external-snapshotter/client/v8.
func InstallFS(ctx context.Context, c *fake.Clientset, dir fs.FS) error {
	files, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, name := range files {
		if err := installFile(ctx, c, dir, name); err != nil {
			return fmt.Errorf("%s: %w", path.Base(name), err)
		}
	}
	return nil
}

func installFile(ctx context.Context, c *fake.Clientset, dir fs.FS, name string) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	err = Install(ctx, c, f)
	return errors.Join(err, f.Close())
}
