package crd

import (
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
)

// Definitions is the resource of the definitions, as commits name it.
const Definitions = "customresourcedefinitions." + group

const group = apiextensionsv1.GroupName

// registry is what a server has of definitions.
type registry struct {
	server *fake.Server

	mu        sync.Mutex
	installed map[string]resource // guarded by mu; by the definition's name
}

// resource is what was installed for a definition.
type resource struct {
	uid         types.UID
	generation  int64
	terminating bool
	names       apiextensionsv1.CustomResourceDefinitionNames
	group       string
}

// Serve makes a server serve CustomResourceDefinitions. It is called once, before the server is used.
func Serve(s *fake.Server) {
	r := &registry{server: s, installed: map[string]resource{}}
	s.Install(r.definitions())
	s.AfterCommit(r.handleCommit)
}

// handleCommit takes note of a change. What it does to objects it does by the server's own hand, and is told of in turn.
func (r *registry) handleCommit(c fake.Commit) {
	if c.Resource != Definitions {
		r.finishCleanup(c.Resource)
		return
	}
	name := definitionOf(c).GetName()
	r.install(name)
	r.acceptFreedNames(definitionOf(c))
	r.cleanUp(name)
}

func definitionOf(c fake.Commit) *fake.CustomObject { return c.After.(*fake.CustomObject) }

// stored returns a definition, or nil.
func (r *registry) stored(name string) *apiextensionsv1.CustomResourceDefinition {
	obj, ok := r.server.Get(Definitions, "", name)
	if !ok {
		return nil
	}
	return mustRead(obj.(*fake.CustomObject))
}

// install makes the server serve what the definition says now, or cease to. It goes by what is stored, so that it does not
// matter in which order commits are told of.
func (r *registry) install(name string) {
	if had, ok := r.takeDeleted(name); ok {
		r.server.Uninstall(had.group, had.names.Plural) // without the lock, for what goes is told of
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	crd := r.stored(name)
	if crd == nil || !isTrue(crd, apiextensionsv1.NamesAccepted) && !isTrue(crd, apiextensionsv1.Established) {
		return
	}
	is := resource{
		uid: crd.UID, generation: crd.Generation, terminating: isTrue(crd, apiextensionsv1.Terminating),
		names: crd.Status.AcceptedNames, group: crd.Spec.Group,
	}
	if is.equal(r.installed[name]) {
		return
	}
	r.server.Install(kindOf(crd))
	r.installed[name] = is
}

// takeDeleted takes out, and returns, what was installed for a definition that is gone.
func (r *registry) takeDeleted(name string) (resource, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	had, ok := r.installed[name]
	if obj, is := r.server.Get(Definitions, "", name); !ok || is && obj.GetUID() == had.uid {
		return resource{}, false
	}
	delete(r.installed, name)
	return had, true
}

func (r resource) equal(o resource) bool {
	a, b := r.names, o.names
	return r.uid == o.uid && r.generation == o.generation && r.terminating == o.terminating && r.group == o.group &&
		a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}
