package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
)

// A target is an object of any resource, which need not exist.
type target struct {
	cluster         *cluster.Cluster
	served          fake.APIResource
	id              string // of the resource, as in fake.Commit
	namespace, name string
}

// target returns the object that an act names.
func (a Act) target(c *cluster.Cluster) (target, error) {
	served, err := lookUpResource(c.Server(), a.kind)
	if err != nil {
		return target{}, err
	}
	namespace, name, given := strings.Cut(a.name, "/")
	if !given {
		namespace, name = "", a.name
	}
	return newTarget(c, served, namespace, name)
}

// targetOfKind returns an object of a kind.
func targetOfKind(c *cluster.Cluster, kind schema.GroupVersionKind, namespace, name string) (target, error) {
	for _, r := range c.Server().Resources() {
		if (schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}) == kind && slices.Contains(r.Verbs, "get") {
			return newTarget(c, r, namespace, name)
		}
	}
	return target{}, fmt.Errorf("the API server does not serve kind %s of %s", kind.Kind, kind.GroupVersion())
}

func newTarget(c *cluster.Cluster, served fake.APIResource, namespace, name string) (target, error) {
	switch {
	case served.Namespaced && namespace == "":
		namespace = metav1.NamespaceDefault
	case !served.Namespaced && namespace != "":
		return target{}, fmt.Errorf("%s/%s: %s have no namespace", namespace, name, served.Name)
	}
	return target{c, served, resourceID(served), namespace, name}, nil
}

// lookUpResource returns the resource of a word, in the preferred version: one of the words of acts,
// or the plural, the singular, a short name, or the plural with the group.
func lookUpResource(s *fake.Server, word string) (fake.APIResource, error) {
	if id, own := resources[word]; own && s.Serves(id) { // snapshots may not be served
		word = id
	}
	if r, served := s.Resource(word); served {
		return r, nil
	}
	var found []string
	for _, r := range s.Resources() {
		id := resourceID(r)
		named := word == r.Name || word == r.SingularName || slices.Contains(r.ShortNames, word) ||
			strings.EqualFold(word, r.Kind) || r.Group != "" && word == r.Name+"."+r.Group
		if named && slices.Contains(r.Verbs, "get") && !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return fake.APIResource{}, fmt.Errorf("resource %q: not served by the API server", word)
	case 1:
		r, _ := s.Resource(found[0])
		return r, nil
	default:
		return fake.APIResource{}, fmt.Errorf("resource %q: want one of %s", word, strings.Join(found, ", "))
	}
}

// resourceID returns the name of a resource as in fake.Commit.
func resourceID(r fake.APIResource) string {
	if r.Custom != nil {
		return r.Name + "." + r.Group
	}
	return r.Name
}

// String returns the object in words: "widgets default/web".
func (t target) String() string {
	return strings.TrimPrefix(t.served.Name+" "+t.namespace+"/"+t.name, "/")
}

// stored returns the object, and whether it exists.
func (t target) stored() (fake.Object, bool) {
	return t.cluster.Server().Get(t.id, t.namespace, t.name)
}

// client returns a client whose requests are those of the acting user.
func (t target) client() dynamic.ResourceInterface {
	client := t.cluster.Server().Client(t.cluster.Host().ExternalCaller()).Dynamic().
		Resource(schema.GroupVersionResource{Group: t.served.Group, Version: t.served.Version, Resource: t.served.Name})
	if t.namespace == "" {
		return client
	}
	return client.Namespace(t.namespace)
}

// create creates the object. It waits while an object of the same name is being deleted.
func (t target) create(ctx context.Context, obj *unstructured.Unstructured) error {
	for {
		_, err := t.client().Create(ctx, obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if stored, exists := t.stored(); exists && stored.GetDeletionTimestamp() == nil {
			return err
		}
		if err := t.waitForGone(ctx); err != nil {
			return err
		}
	}
}

// patch applies a merge patch.
func (t target) patch(ctx context.Context, patch []byte, subresource ...string) error {
	options := metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}
	_, err := t.client().Patch(ctx, t.name, types.MergePatchType, patch, options, subresource...)
	return err
}

func (t target) waitForGone(ctx context.Context) error {
	return t.cluster.WaitForGone(ctx, t.id, t.namespace, t.name)
}

// delete deletes an object.
func (a Act) delete(ctx context.Context, c *cluster.Cluster) error {
	t, err := a.target(c)
	if err != nil {
		return err
	}
	options := metav1.DeleteOptions{}
	if now, _ := a.option("now"); now == "true" {
		options.GracePeriodSeconds = new(int64)
	}
	return ignoreNotFound(t.client().Delete(ctx, t.name, options))
}

// patch patches an object.
func (a Act) patch(ctx context.Context, c *cluster.Cluster) error {
	t, err := a.target(c)
	if err != nil {
		return err
	}
	patch, ofStatus, err := a.mergePatch()
	if err != nil {
		return err
	}
	var through []string
	if ofStatus && slices.ContainsFunc(t.served.Subresources, func(s metav1.APIResource) bool { return strings.HasSuffix(s.Name, "/status") }) {
		through = []string{"status"}
	}
	return ignoreNotFound(t.patch(ctx, patch, through...))
}

// mergePatch returns the patch of an act, and whether it changes the status.
func (a Act) mergePatch() (patch []byte, ofStatus bool, err error) {
	fields := map[string]any{}
	for _, word := range a.args {
		path, value, is := strings.Cut(word, "=")
		if !is {
			return nil, false, fmt.Errorf("unexpected %q: want PATH=VALUE, such as spec.size=2Gi", word)
		}
		p, err := parseFieldPath(path)
		if err == nil {
			err = p.set(fields, literal(value))
		}
		if err != nil {
			return nil, false, err
		}
	}
	_, ofStatus = fields["status"]
	if ofStatus && len(fields) > 1 {
		return nil, false, errors.New("the status is patched by an act of its own")
	}
	patch, err = json.Marshal(fields)
	return patch, ofStatus, err
}

// wait waits for the conditions of an act.
func (a Act) wait(ctx context.Context, c *cluster.Cluster) error {
	t, err := a.target(c)
	if err != nil {
		return err
	}
	switch a.args[0] {
	case "gone":
		return t.waitForGone(ctx)
	case "exists":
		return c.Wait(ctx, t.String()+" to exist", func() bool {
			_, exists := t.stored()
			return exists
		})
	}
	conditions := make([]condition, len(a.args))
	for i, word := range a.args {
		if conditions[i], err = parseCondition(word); err != nil {
			return err
		}
	}
	checked, holds := "", false // the result for a version of the object
	return c.Wait(ctx, fmt.Sprintf("%s %s to be %s", a.kind, a.name, strings.Join(a.args, " ")), func() bool {
		obj, exists := t.stored()
		if !exists {
			checked = ""
			return false
		}
		if version := obj.GetResourceVersion(); version != checked {
			checked, holds = version, !slices.ContainsFunc(conditions, func(holds condition) bool { return !holds(obj) })
		}
		return holds
	})
}

// A condition reports whether an object is as a wait requires.
type condition func(obj fake.Object) bool

// parseCondition returns what a word of a wait requires.
func parseCondition(word string) (condition, error) {
	key, value, is := strings.Cut(word, "=")
	switch {
	case !is:
		phases := strings.Split(word, "|")
		return func(obj fake.Object) bool { return slices.Contains(phases, phase(obj)) || hasCapacity(obj, word) }, nil
	case key == "condition":
		name, status, given := strings.Cut(value, "=")
		if !given {
			status = string(metav1.ConditionTrue)
		}
		return func(obj fake.Object) bool { return strings.EqualFold(conditionIn(contentOf(obj), name), status) }, nil
	}
	path, err := parseFieldPath(key)
	if err != nil {
		return nil, err
	}
	want := strings.Split(value, "|")
	if value != "" && strings.ContainsRune(jsonStarts, rune(value[0])) {
		want = []string{plain(literal(value))}
	}
	return func(obj fake.Object) bool {
		got, exists := path.value(contentOf(obj))
		return exists && slices.Contains(want, plain(got)) || !exists && slices.Contains(want, "")
	}, nil
}

// contentOf returns the fields of a stored object.
func contentOf(obj runtime.Object) map[string]any {
	content := map[string]any{}
	data, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(data, &content)
	}
	if err != nil {
		panic(fmt.Sprintf("scenario: %v", err)) // API objects can be converted
	}
	return content
}

// phaseIn returns the phase in the status of an object, "" if it has none.
func phaseIn(content map[string]any) string {
	phase, _, _ := unstructured.NestedString(content, "status", "phase")
	return phase
}

// conditionIn returns the status of a condition of an object, "" if it does not have the condition.
func conditionIn(content map[string]any, name string) string {
	all, _, _ := unstructured.NestedSlice(content, "status", "conditions")
	for _, one := range all {
		fields, _ := one.(map[string]any)
		if kind, _ := fields["type"].(string); strings.EqualFold(kind, name) {
			status, _ := fields["status"].(string)
			return status
		}
	}
	return ""
}

// phase returns the phase of an object, "" if it has none.
func phase(obj any) string {
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		return string(o.Status.Phase)
	case *corev1.PersistentVolumeClaim:
		return string(o.Status.Phase)
	case *corev1.Pod:
		return string(o.Status.Phase)
	case fake.Object:
		content := contentOf(o)
		if ready, _, _ := unstructured.NestedBool(content, "status", "readyToUse"); ready {
			return readyToUse
		}
		return phaseIn(content)
	default:
		return ""
	}
}
