package crd

import (
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
)

// definitionsResource is the resource of definitions in a [fake.Commit].
const definitionsResource = "customresourcedefinitions." + group

const group = apiextensionsv1.GroupName

// registry tracks the definitions of a server.
type registry struct {
	server   *fake.Server
	webhooks *webhooks

	mu        sync.Mutex
	installed map[string]resource // guarded by mu; by the definition's name
}

// resource is what was installed for a definition.
type resource struct {
	uid         types.UID
	generation  int64
	terminating bool
	changes     int64 // of the generation and the names
	names       apiextensionsv1.CustomResourceDefinitionNames
	group       string
}

// Serve adds CustomResourceDefinitions to a server, before the server is used. Further calls do
// nothing.
func Serve(s *fake.Server) {
	if _, ok := s.Resource(definitionsResource); ok {
		return
	}
	r := &registry{server: s, webhooks: newWebhooks(s), installed: map[string]resource{}}
	s.Install(r.definitions())
	s.AfterCommit(r.handleCommit)
}

// handleCommit reacts to a change. Its own writes cause further commits.
func (r *registry) handleCommit(c fake.Commit) {
	if c.Resource != definitionsResource {
		r.finishCleanup(c.Resource)
		return
	}
	name := definitionOf(c).GetName()
	r.install(name)
	if c.Type == watch.Added {
		return // it frees no names, and is not being deleted
	}
	r.acceptFreedNames(definitionOf(c))
	r.cleanUp(name)
}

func definitionOf(c fake.Commit) *fake.CustomObject { return c.After.(*fake.CustomObject) }

// stored returns a definition, or nil.
func (r *registry) stored(name string) *apiextensionsv1.CustomResourceDefinition {
	obj, ok := r.server.Get(definitionsResource, "", name)
	if !ok {
		return nil
	}
	return mustRead(obj.(*fake.CustomObject))
}

// storedVersions is stored, with what its versions were compiled to if that is known.
func (r *registry) storedVersions(name string) (*apiextensionsv1.CustomResourceDefinition, map[string]*version) {
	obj, ok := r.server.Get(definitionsResource, "", name)
	if !ok {
		return nil, nil
	}
	if d := preparedOf(obj.(*fake.CustomObject)); d != nil {
		crd := *d.definition
		crd.ObjectMeta = obj.(*fake.CustomObject).ObjectMeta
		return &crd, d.versions
	}
	return mustRead(obj.(*fake.CustomObject)), nil
}

// install adds, changes or removes the resource of a definition. It reads the stored definition, so
// the order of commits does not matter.
func (r *registry) install(name string) {
	if previous, ok := r.takeDeleted(name); ok {
		r.server.Uninstall(previous.group, previous.names.Plural) // without the lock: Uninstall causes commits
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	crd, versions := r.storedVersions(name)
	if crd == nil || !isServed(crd) {
		return
	}
	current := resource{
		uid: crd.UID, generation: crd.Generation, terminating: isTrue(crd, apiextensionsv1.Terminating),
		names: crd.Status.AcceptedNames, group: crd.Spec.Group,
	}
	previous := r.installed[name]
	if current.equal(previous) {
		return
	}
	current.changes = previous.changes
	if !current.servedAs(previous) {
		current.changes++
	}
	if versions == nil {
		versions = versionsOf(crd)
	}
	k := r.kindOf(crd, versions)
	k.Generation = current.changes
	r.server.Install(k)
	r.installed[name] = current
}

// takeDeleted removes and returns what was installed for a definition that no longer exists.
func (r *registry) takeDeleted(name string) (resource, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	installed, ok := r.installed[name]
	if obj, exists := r.server.Get(definitionsResource, "", name); !ok || exists && obj.GetUID() == installed.uid {
		return resource{}, false
	}
	delete(r.installed, name)
	return installed, true
}

// isServed reports whether the resource of a definition is served.
//
// Differs: a definition that is not established because of its conversion webhook is not served.
// The real server answers its requests with 500.
func isServed(crd *apiextensionsv1.CustomResourceDefinition) bool {
	if isTrue(crd, apiextensionsv1.Established) {
		return true
	}
	c := apihelpers.FindCRDCondition(crd, apiextensionsv1.Established)
	return isTrue(crd, apiextensionsv1.NamesAccepted) && (c == nil || c.Reason != invalidCABundleReason)
}

func (r resource) equal(o resource) bool { return r.terminating == o.terminating && r.servedAs(o) }

// servedAs reports whether a resource is served as another was.
func (r resource) servedAs(o resource) bool {
	a, b := r.names, o.names
	return r.uid == o.uid && r.generation == o.generation && r.group == o.group &&
		a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}
