package crd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake"
)

// errNotServed means that Serve was not called.
var errNotServed = errors.New("the server does not serve CustomResourceDefinitions; call crd.Serve")

// Install creates the definitions in a stream of YAML or JSON documents, in order. It skips other
// documents. When it returns, the resources are served. The client is a [*fake.Clientset] or one
// that embeds it, such as cluster.Cluster.Client returns, of a server that Serve was called for.
func Install(ctx context.Context, c kubernetes.Interface, documents io.Reader) error {
	_, err := install(ctx, c, documents)
	return err
}

// install is Install, and returns the number of created definitions.
func install(ctx context.Context, c kubernetes.Interface, documents io.Reader) (created int, err error) {
	owner, ok := c.(interface {
		Resource(r schema.GroupVersionResource, namespace string) (fake.ResourceClient, bool)
	})
	if !ok {
		return 0, fmt.Errorf("install definitions: client %T is not of package fake: "+
			"use the client of a fake.Server or a cluster", c)
	}
	client, ok := owner.Resource(schema.GroupVersionResource{
		Group: group, Version: "v1", Resource: "customresourcedefinitions",
	}, "")
	if !ok {
		return 0, errNotServed
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(documents))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return created, nil
		}
		if err != nil {
			return created, fmt.Errorf("read definitions: %w", err)
		}
		obj := &fake.CustomObject{}
		data, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return created, fmt.Errorf("read definitions: %w", err)
		}
		var is metav1.TypeMeta // empty in a kustomization.yaml, for example
		if err := json.Unmarshal(data, &is); err != nil {
			return created, fmt.Errorf("read definitions: %w", err)
		}
		if is.GroupVersionKind() != client.GroupVersionKind() {
			continue
		}
		if err := obj.UnmarshalJSON(data); err != nil {
			return created, fmt.Errorf("read definitions: %w", err)
		}
		if _, err := client.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			return created, fmt.Errorf("create definition: %w", err)
		}
		created++
	}
}

// InstallFS is like Install for the files of a directory that end in .yaml, in the order of their
// names. An example is os.DirFS of the folder config/crd of the module
// github.com/kubernetes-csi/external-snapshotter/client/v8.
func InstallFS(ctx context.Context, c kubernetes.Interface, dir fs.FS) error {
	files, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, name := range files {
		if _, err := installFile(ctx, c, dir, name); err != nil {
			return fmt.Errorf("%s: %w", path.Base(name), err)
		}
	}
	return nil
}

func installFile(ctx context.Context, c kubernetes.Interface, dir fs.FS, name string) (created int, err error) {
	f, err := dir.Open(name)
	if err != nil {
		return 0, err
	}
	created, err = install(ctx, c, f)
	return created, errors.Join(err, f.Close())
}
