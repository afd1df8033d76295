package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/simtest"
)

// A vaultBug is what is wrong with the operator of vaults.
type vaultBug string

const (
	noBug       vaultBug = ""
	keepsFields vaultBug = "keeps fields" // a field that the spec no longer has stays in the owned object
	keepsUsers  vaultBug = "keeps users"  // the object of a removed user is left over
	forgets     vaultBug = "forgets"      // a change during a reconcile is lost
	reports     vaultBug = "reports"      // no bug: its status says what it cannot do, and it does not retry
	stops       vaultBug = "stops"        // after a spec that it cannot do, it ignores all others
)

var vaults = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "vaults"}

// vaultOperator gives a vault a ConfigMap with its settings, and a Secret for each user.
func vaultOperator(bug vaultBug) cluster.Component {
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "operator", For: "vaults.example.com",
		Watches: []cluster.Watch{{Resource: "configmaps"}, {Resource: "secrets"}},
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			direct := p.WithReads(fake.ReadLive)
			cached, err := dynamic.NewForConfig(p.RESTConfig())
			live, errLive := dynamic.NewForConfig(direct.RESTConfig())
			o := &vaultReconciler{bug: bug, vaults: cached, live: live, core: direct.Client.CoreV1()}
			return o.reconcile, errors.Join(err, errLive)
		},
	})
}

type vaultReconciler struct {
	bug    vaultBug
	vaults dynamic.Interface // reads from caches
	live   dynamic.Interface // reads from the server, as core does
	core   typedcore.CoreV1Interface
	failed bool // it has seen a spec that cannot be done
}

// errTooMany is why a spec cannot be done.
var errTooMany = errors.New("a vault has three replicas at most")

func (o *vaultReconciler) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	vault, err := o.vaults.Resource(vaults).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	if seen, _, _ := unstructured.NestedInt64(vault.Object, "status", "observedGeneration"); seen == vault.GetGeneration() {
		return 0, nil
	}
	spec, _, _ := unstructured.NestedMap(vault.Object, "spec")
	impossible := spec["replicas"].(int64) > 3
	if o.bug == stops && o.failed && !impossible {
		return 0, nil
	}
	if err := o.settings(ctx, vault, spec); err != nil {
		return 0, err
	}
	if impossible {
		o.failed = true
		if o.bug == reports {
			return 0, o.report(ctx, vault)
		}
		return 0, errTooMany
	}
	if err := o.secrets(ctx, vault, spec); err != nil {
		return 0, err
	}
	return 0, o.observe(ctx, vault)
}

// report notes in the status that the spec cannot be done.
func (o *vaultReconciler) report(ctx context.Context, vault *unstructured.Unstructured) error {
	failed := vault.DeepCopy()
	failed.Object["status"] = map[string]any{"failed": errTooMany.Error()}
	_, err := o.live.Resource(vaults).Namespace(vault.GetNamespace()).UpdateStatus(ctx, failed, metav1.UpdateOptions{})
	return err
}

// observe notes in the status that the spec is done. The bug is to note it of the newest spec, instead of
// the one that was read.
func (o *vaultReconciler) observe(ctx context.Context, vault *unstructured.Unstructured) error {
	client := o.live.Resource(vaults).Namespace(vault.GetNamespace())
	done := vault.DeepCopy()
	if o.bug == forgets {
		newest, err := client.Get(ctx, vault.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		done = newest
	}
	done.Object["status"] = map[string]any{"observedGeneration": done.GetGeneration()}
	_, err := client.UpdateStatus(ctx, done, metav1.UpdateOptions{})
	return err
}

// settings writes the ConfigMap of a vault.
func (o *vaultReconciler) settings(ctx context.Context, vault *unstructured.Unstructured, spec map[string]any) error {
	want := map[string]string{"replicas": fmt.Sprint(spec["replicas"])}
	if mode, has := spec["mode"]; has {
		want["mode"] = mode.(string)
	}
	limits, _ := spec["limits"].(map[string]any)
	for name, value := range limits {
		want["limit-"+name] = fmt.Sprint(value)
	}
	maps := o.core.ConfigMaps(vault.GetNamespace())
	have, err := maps.Get(ctx, vault.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: owned(vault, vault.GetName()), Data: want}, metav1.CreateOptions{})
		return err
	} else if err != nil {
		return err
	}
	have = have.DeepCopy()
	if o.bug == keepsFields {
		for name, value := range want {
			have.Data[name] = value
		}
	} else {
		have.Data = want
	}
	_, err = maps.Update(ctx, have, metav1.UpdateOptions{})
	return err
}

// owned returns the metadata of an object of a vault.
func owned(vault *unstructured.Unstructured, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vault, vault.GroupVersionKind())}}
}

// secrets creates the Secrets of the users of a vault, and deletes those of others.
func (o *vaultReconciler) secrets(ctx context.Context, vault *unstructured.Unstructured, spec map[string]any) error {
	users, _, _ := unstructured.NestedStringSlice(spec, "users")
	secrets := o.core.Secrets(vault.GetNamespace())
	all, err := secrets.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var have []string
	for i := range all.Items {
		name := all.Items[i].Name
		have = append(have, name)
		if !slices.Contains(users, strings.TrimPrefix(name, vault.GetName()+"-")) && o.bug != keepsUsers {
			if err := secrets.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	for _, u := range users {
		if name := vault.GetName() + "-" + u; !slices.Contains(have, name) {
			_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: owned(vault, name)}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
	}
	return nil
}

// modeFollows is the rule that the mode in the settings is that of the spec, once the world is at rest.
var modeFollows = invariant.Rule{ID: "follows", Forbids: "settings that are not those of the spec", Begin: func(w invariant.World) invariant.Checks {
	return invariant.Checks{AtRest: func() error {
		vault, exists := w.API.Get("vaults.example.com", "default", "main")
		settings, written := w.API.Get("configmaps", "default", "main")
		if !exists || !written {
			return nil
		}
		spec := vault.(*fake.CustomObject).Content["spec"].(map[string]any)
		want, _ := spec["mode"].(string)
		if got := settings.(*corev1.ConfigMap).Data["mode"]; got != want {
			return fmt.Errorf("vault default/main has mode %q, configmap default/main %q", want, got)
		}
		return nil
	}}
}}

// vaultWorld is a world with nothing but the operator.
func vaultWorld(bug vaultBug) scenario.Scenario {
	return scenario.Scenario{Components: []string{}, Rules: []string{}, Extra: []cluster.Component{vaultOperator(bug)}}
}

// vaultUser changes a vault.
func vaultUser() simtest.CustomResource {
	return simtest.CustomResource{Definition: "testdata/vaults.yaml", Object: "testdata/vault.yaml"}
}
