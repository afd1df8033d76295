package simtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/sim"
)

// A CustomResource draws what a user does with an object of a custom resource: the user creates it,
// and then changes its spec as the schema of its definition allows. The program must import package
// fake/crd, as one with the header definitions.
type CustomResource struct {
	// Definition is the file, or directory of files, with the CustomResourceDefinition, as in the header
	// definitions of a scenario, to which it is added. Its relative path begins in Dir of the world.
	Definition string
	// Object is a manifest, or the path of one, with a valid object to begin with. Other objects in it,
	// such as Secrets, are created, too.
	Object string
	// Paths are the fields to change, with all within them: "spec.replicas", "spec.ports[].port",
	// "spec.labels.*". nil: every field of the spec.
	Paths []string
	// Values draw values of fields, by path, where the schema does not say which are sensible. They
	// return what encoding/json can encode.
	Values map[string]func(rt *rapid.T) any
	// Changes is the maximum number of changes; 0: 5.
	Changes int
	// User is the name of the user; "": "user".
	User string
	// Failed reports by the object and its status whether the operator cannot do what the spec says. Converge
	// has such a change reverted. nil: an operator fails if it does not come to rest.
	Failed func(object *unstructured.Unstructured) bool
	// Ignore lists what Converge does not compare: resources, such as "secrets", and fields of
	// resources, such as "deployments metadata.annotations".
	Ignore []string
}

// changesMax is the default maximum of changes.
const changesMax = 5

// Workload returns a workload that draws the acts of the user: one that applies Object, and then
// patches. A change sets or removes a field, adds or removes an entry of a list or map, or returns to a former
// value or spec. A change that the API server would refuse, by the schema or its CEL rules, is left
// out, so that the acts never fail for it; webhooks and policies are not asked. A workload is for one goroutine. It
// panics if the files cannot be read, if the server refuses Object, and for a path that the schema does not have.
func (r CustomResource) Workload() Workload {
	var once sync.Once
	var p *preparedResource
	return func(rt *rapid.T, d *Draft) {
		if d.recorded != nil {
			return // the acts are in the text
		}
		once.Do(func() { p = r.mustPrepare(d.world.Dir) })
		p.act(rt, d, nil)
	}
}

// A preparedResource is a CustomResource whose files have been read.
type preparedResource struct {
	CustomResource
	resource *resourceType
	seed     *unstructured.Unstructured   // the object to begin with
	others   []*unstructured.Unstructured // of its manifest
	groups   [][]field

	drawn, refused int // changes
}

func (r CustomResource) mustPrepare(dir string) *preparedResource {
	p, err := r.prepare(dir)
	if err != nil {
		panic("simtest: custom resource: " + err.Error())
	}
	return p
}

// prepare reads the files. Relative paths begin in dir.
func (r CustomResource) prepare(dir string) (*preparedResource, error) {
	at := func(path string) string {
		if dir == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	manifest := r.Object
	if isFileName(manifest) {
		text, err := os.ReadFile(at(manifest))
		if err != nil {
			return nil, err
		}
		manifest = string(text)
	}
	objects, err := readObjects(manifest)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	p := &preparedResource{CustomResource: r}
	if p.resource, p.seed, err = readDefinition(at(r.Definition), objects); err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o != p.seed {
			p.others = append(p.others, o)
		}
	}
	if p.resource.namespaced && p.seed.GetNamespace() == "" {
		p.seed.SetNamespace(metav1.NamespaceDefault)
	}
	var unknown []string
	if p.groups, unknown = fieldsOf(p.resource.spec, r.Paths, r.Values); len(unknown) > 0 {
		return nil, fmt.Errorf("%s: the schema has no path %s, or it is immutable", r.Definition, strings.Join(unknown, ", "))
	}
	if len(p.groups) == 0 {
		return nil, fmt.Errorf("%s: the schema has no field to change", r.Definition)
	}
	return p, nil
}

// act draws the acts of the user. isFailed reports whether an operator cannot do what a content says; nil: it
// always can.
func (p *preparedResource) act(rt *rapid.T, d *Draft, isFailed func(content map[string]any) bool) {
	d.world.Definitions = p.addDefinition(d.world.Definitions)
	target := p.serve(rt.Context())
	c := &changer{groups: p.groups, own: p.Values, history: []map[string]any{target.content()}}
	acts := p.creation(p.seed)
	most := p.Changes
	if most == 0 {
		most = changesMax
	}
	accepted := 0
	// Refused changes leave room for others. Elements of a slice are what rapid drops first.
	rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) bool {
		now := c.history[len(c.history)-1]
		next := c.next(rt)
		if accepted == most || jsonText(next) == jsonText(now) {
			return false
		}
		p.drawn++
		words := target.patch(now, next)
		if words == nil {
			p.refused++
			return false
		}
		accepted++
		after := target.content()
		acts = append(acts, p.patchAct(words))
		if isFailed != nil && isFailed(after) {
			if words = target.patch(after, now); words != nil {
				acts = append(acts, p.patchAct(words))
				return true
			}
		}
		c.history = append(c.history, after)
		return true
	}), 0, 2*most).Draw(rt, "changes")
	d.User(p.userName(), acts...)
}

func (p *preparedResource) userName() string {
	if p.User == "" {
		return "user"
	}
	return p.User
}

// addDefinition returns the definitions of a world with that of the resource.
func (p *preparedResource) addDefinition(of []string) []string {
	for _, path := range of {
		if path == p.Definition {
			return of
		}
	}
	return append(of[:len(of):len(of)], p.Definition)
}

// creation returns the acts that create an object of the resource, and the others of its manifest.
func (p *preparedResource) creation(object *unstructured.Unstructured) []string {
	var acts []string
	if ns := object.GetNamespace(); ns != "" && ns != metav1.NamespaceDefault && !p.hasNamespace(ns) {
		acts = append(acts, `apply {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+ns+`"}}`)
	}
	for _, o := range p.others {
		acts = append(acts, "apply "+jsonText(o.Object))
	}
	if object == p.seed && len(p.others) == 0 && isFileName(p.Object) && len(acts) == 0 {
		return []string{"apply " + p.Object}
	}
	return append(acts, "apply "+jsonText(object.Object))
}

func (p *preparedResource) hasNamespace(name string) bool {
	for _, o := range p.others {
		if o.GetKind() == "Namespace" && o.GetName() == name {
			return true
		}
	}
	return false
}

// patchAct returns the act that changes the object.
func (p *preparedResource) patchAct(words []string) string {
	name := p.seed.GetName()
	if ns := p.seed.GetNamespace(); ns != "" && ns != metav1.NamespaceDefault {
		name = ns + "/" + name
	}
	return "patch " + p.resource.id + " " + name + " " + strings.Join(words, " ")
}

// A draftObject is the object in an API server of its own, where no operator runs. It shows which
// changes the server accepts, and which values it sets.
type draftObject struct {
	ctx    context.Context //nolint:containedctx // of requests that are answered at once
	client dynamic.ResourceInterface
	name   string
	stored *unstructured.Unstructured
}

// serve returns the object in a new server.
func (p *preparedResource) serve(ctx context.Context) *draftObject {
	o, err := p.tryServe(ctx, p.seed)
	if err != nil {
		panic("simtest: custom resource: " + err.Error())
	}
	return o
}

// server returns a server with the resource, and a client for its objects.
func (p *preparedResource) server(ctx context.Context) (dynamic.ResourceInterface, error) {
	server := fake.NewServer(fake.Config{SkipBootstrap: true, Now: func() time.Time { return sim.Epoch }})
	if err := definitions.InstallText(ctx, server, p.resource.text); err != nil {
		return nil, err
	}
	clients := server.Client(sim.DirectCaller())
	gv, err := apischema.ParseGroupVersion(p.resource.apiVersion)
	if err != nil {
		return nil, err
	}
	resource := clients.Dynamic().Resource(gv.WithResource(p.resource.plural))
	ns := p.seed.GetNamespace()
	if ns == "" {
		return resource, nil
	}
	if ns != metav1.NamespaceDefault {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		if _, err := clients.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	return resource.Namespace(ns), nil
}

func (p *preparedResource) tryServe(ctx context.Context, seed *unstructured.Unstructured) (*draftObject, error) {
	client, err := p.server(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := client.Create(ctx, seed.DeepCopy(), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return nil, err
	}
	return &draftObject{ctx, client, seed.GetName(), stored}, nil
}

// content returns the fields of the object that are changed.
func (o *draftObject) content() map[string]any {
	content := map[string]any{specField: map[string]any{}}
	if spec, has := o.stored.Object[specField]; has {
		content[specField] = runtime.DeepCopyJSONValue(spec)
	}
	return content
}

// patch changes the object, and returns the words of the act. nil: the server refuses the change, or
// it changes nothing.
func (o *draftObject) patch(from, to map[string]any) []string {
	patch := mergePatch(from, to)
	words := assignments(patch, from)
	// What the act says is what is applied here.
	if _, err := scenario.ParseAct("patch x y " + strings.Join(words, " ")); len(words) == 0 || err != nil {
		return nil
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil
	}
	options := metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}
	stored, err := o.client.Patch(o.ctx, o.name, types.MergePatchType, body, options)
	if err != nil || jsonText(stored.Object[specField]) == jsonText(o.stored.Object[specField]) {
		return nil
	}
	o.stored = stored
	return words
}
