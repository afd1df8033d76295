package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/internal/localstorage"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/volumegroup"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
)

// localStorageComponents returns the components of package localstorage for a real API server. The
// nodes with disks are simulated: their volume groups are in memory.
func (r *Remote) localStorageComponents(byNode map[string][]Disk) ([]recipe, error) {
	all := []recipe{localStorageController(r.localStorage.Store)}
	disks := newArrayDriver(array.Config{})
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		root := "/" + node
		memory := nodefs.NewMemory(root)
		disks.nodes[node] = memory
		for _, disk := range byNode[node] {
			disk.Path = path.Clean("/" + disk.Path)
			if err := disks.addDisk(node, hostpath.Machine{FS: memory, Root: root}, disk); err != nil {
				return nil, fmt.Errorf("disk %s of %s: %w", disk.Path, node, err)
			}
		}
		all = append(all, localStorageManager(node, volumegroup.NewMemory(memory, root), func(*localstorage.Manager) {}))
	}
	return all, nil
}

// LocalStorageExtender returns the scheduler extender of RemoteConfig.LocalStorage; see
// [Cluster.LocalStorageExtender]. It answers 503 while Run is not in progress. The scheduler of the
// Remote asks it without a network.
//
// Upstream: k8s.io/kube-scheduler/extender/v1.
func (r *Remote) LocalStorageExtender() http.Handler {
	return extenderOf(func() *localstorage.Controller {
		if !r.running.Load() {
			return nil
		}
		return r.localStorage.Load()
	})
}

// definitionsResource is the resource of CustomResourceDefinitions.
var definitionsResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// InstallDefinitions makes the API server serve the custom resources of the components, and returns
// once it does. Definitions of snapshots that the server has stay as they are. It makes no request if
// there are none.
func (r *Remote) InstallDefinitions(ctx context.Context) error {
	if r.localStorage.Load() == nil && !r.snapshots {
		return nil
	}
	client, err := dynamic.NewForConfig(r.rest)
	if err != nil {
		return err
	}
	installed := client.Resource(definitionsResource)
	if r.localStorage.Load() != nil {
		if err := installDefinition(ctx, installed, localstorage.Definition, false); err != nil {
			return err
		}
	}
	if r.snapshots {
		for text := range strings.SplitSeq(snapshotapi.Definitions(), "\n---\n") {
			if err := installDefinition(ctx, installed, text, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// installDefinition applies a definition, and waits until it is served. With keep, one that exists is not
// changed.
func installDefinition(ctx context.Context, installed dynamic.ResourceInterface, text string, keep bool) error {
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &definition.Object); err != nil {
		return err
	}
	stored, err := installed.Get(ctx, definition.GetName(), metav1.GetOptions{})
	if !keep || apierrors.IsNotFound(err) {
		stored, err = installed.Apply(ctx, definition.GetName(), definition, metav1.ApplyOptions{FieldManager: "volsim", Force: true})
	}
	if err != nil {
		return fmt.Errorf("install definition %s: %w", definition.GetName(), err)
	}
	changes, err := installed.Watch(ctx, metav1.ListOptions{
		ResourceVersion: stored.GetResourceVersion(),
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, stored.GetName()).String(),
	})
	if err != nil {
		return fmt.Errorf("watch definition %s: %w", definition.GetName(), err)
	}
	defer changes.Stop()
	for !isEstablished(stored) {
		change, open := <-changes.ResultChan()
		obj, ok := change.Object.(*unstructured.Unstructured)
		if !open || !ok {
			return errors.Join(fmt.Errorf("definition %s is not established", definition.GetName()), ctx.Err())
		}
		stored = obj
	}
	return nil
}

// isEstablished reports whether a definition is served.
func isEstablished(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(each any) bool {
		condition, ok := each.(map[string]any)
		return ok && condition["type"] == "Established" && condition["status"] == string(metav1.ConditionTrue)
	})
}
