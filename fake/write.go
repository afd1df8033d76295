package fake

import (
	"errors"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake/internal/rules"
)

// The pipeline of writes, the same for every resource: default, admit, validate, check what the writer presumes (UID,
// resourceVersion), commit. It works on the object as it was read, without the lock; if somebody else wrote the object
// meanwhile, commit refuses and the pipeline runs again: somebody always gets on.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry (Store.Create, Update), pkg/registry/rest (BeforeCreate,
// BeforeUpdate).

const (
	staleMsg     = "the object has been modified; please apply your changes to the latest version and try again"
	createRVMsg  = "resourceVersion should not be set on objects to be created"
	namespaceMsg = "the namespace of the provided object does not match the namespace sent on the request"

	generateMax = 8 // names tried for a generateName
)

// written is what became of a write.
type written struct {
	object Object // to answer with; read-only
	before Object // stored before; nil for a creation
	after  Object // stored after, or the last state; nil when nothing was committed
	gone   bool   // the object was removed

	created bool // there was none before

	warnings []string // for whoever wrote
}

// create stores an object, which becomes the store's.
func (s *Server) create(k *kind, namespace string, obj Object, dryRun bool) (written, error) {
	m := metaOf(obj)
	clean(obj)
	if err := inNamespace(k, m, namespace); err != nil {
		return written{}, err
	}
	if err := s.admitNamespace(k, namespace, m); err != nil {
		return written{}, err
	}
	if err := k.mayCreate(m.Name); err != nil {
		return written{}, err
	}
	if m.ResourceVersion != "" {
		return written{}, internalError(createRVMsg)
	}
	generate := m.Name == "" && m.GenerateName != ""
	for try := 1; ; try++ {
		if generate {
			m.Name = s.generateName(m.GenerateName)
		}
		if err := s.prepareCreate(k, obj); err != nil {
			return written{}, err
		}
		t, key := s.tableOf(k), key(m.Namespace, m.Name)
		if s.lookup(t, key) == nil {
			warnings := k.warnings(obj, nil)
			if dryRun {
				return written{object: obj, created: true, warnings: warnings}, nil
			}
			if obj, ok := s.put(t, k, watch.Added, key, nil, obj); ok {
				return written{object: obj, after: obj, created: true, warnings: warnings}, nil
			}
		}
		if !generate || try == generateMax {
			return written{}, apierrors.NewAlreadyExists(k.groupResource(), m.Name)
		}
	}
}

// prepareCreate makes a writer's object one that may be stored.
func (s *Server) prepareCreate(k *kind, obj Object) error {
	m := metaOf(obj)
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = nil, nil
	m.CreationTimestamp = s.timestamp()
	m.UID = s.newUID(k.resource, key(m.Namespace, m.Name))
	k.defaults(obj)
	k.prepareCreate(m.CreationTimestamp, obj, nil)
	if err := s.admitCreate(obj); err != nil {
		return err
	}
	if errs := append(rules.ValidateMeta(m, k.namespaced, k.name, k.custom != nil), k.validateCreate(obj, nil)...); len(errs) > 0 {
		return invalid(k, m.Name, errs)
	}
	return nil
}

// change is a write to an object that may be there.
type change struct {
	namespace, name string
	through         subresource
	dryRun          bool
	// make gives the object as the writer wants it, given the stored one, which is nil if there is none. It is called
	// again if the stored one changed meanwhile. The object becomes the store's.
	make func(old Object) (Object, error)
	// whole: make gives what the writer sent, and a UID in it is a precondition.
	whole bool
	// create: make makes an object where there is none.
	create bool
}

// subresource is the door a change comes through.
type subresource string

const (
	throughMain     subresource = ""
	throughStatus   subresource = "status"
	throughFinalize subresource = "finalize" // of namespaces: their spec's finalizers may be written
	throughBinding  subresource = "binding"  // of pods: make has seen to everything
	throughScale    subresource = "scale"    // to the managed fields only: it is a kind of its own
)

// verdict is what is to be done with an object.
type verdict int

const (
	verdictStore  verdict = iota // store it
	verdictKeep                  // leave what is stored
	verdictRemove                // remove what is stored
)

// update carries a change out.
func (s *Server) update(k *kind, c change) (written, error) {
	t, key := s.tableOf(k), key(c.namespace, c.name)
	for {
		stored := s.lookup(t, key)
		old := k.read(stored)
		if old == nil && !c.create && !(c.whole && k.allowCreateOnUpdate) {
			return written{}, apierrors.NewNotFound(k.groupResource(), c.name)
		}
		obj, err := c.make(old)
		if err != nil {
			return written{}, err
		}
		if old == nil {
			obj.SetResourceVersion("")
			done, err := s.create(k, c.namespace, obj, c.dryRun)
			if c.create && apierrors.IsAlreadyExists(err) {
				continue
			}
			return done, err
		}
		obj, what, err := s.prepareUpdate(k, c, obj, old)
		if err != nil {
			return written{}, err
		}
		var warnings []string
		if c.through == throughMain || k.custom != nil {
			warnings = k.warnings(obj, old)
		}
		switch {
		case what == verdictKeep && !k.outdated(stored):
			return written{object: old, warnings: warnings}, nil
		case c.dryRun:
			return written{object: obj, warnings: warnings}, nil
		case what == verdictRemove:
			if last := k.shallow(stored); s.commit(t, watch.Deleted, key, stored, last) {
				return written{object: obj, before: old, after: last, gone: true, warnings: warnings}, nil
			}
		default:
			if obj, ok := s.put(t, k, watch.Modified, key, stored, obj); ok {
				return written{object: obj, before: old, after: obj, warnings: warnings}, nil
			}
		}
	}
}

// prepareUpdate makes a writer's object one that may be stored, and says whether it is to be.
func (s *Server) prepareUpdate(k *kind, c change, obj, old Object) (Object, verdict, error) {
	m, was := metaOf(obj), metaOf(old)
	clean(obj)
	if err := inNamespace(k, m, c.namespace); err != nil {
		return nil, 0, err
	}
	if err := preconditions(k, c, m, was); err != nil {
		return nil, 0, err
	}
	if c.through != throughBinding {
		var err error
		if obj, err = s.reconcile(k, c.through, obj, old); err != nil {
			return nil, 0, err
		}
		m = metaOf(obj)
	}
	keepTimes(obj, old)
	switch {
	case isLastUpdate(m, was) && hasNoSpecFinalizers(obj):
		return obj, verdictRemove, nil
	case maps.Equal(m.Annotations, was.Annotations) && same(obj, old):
		return obj, verdictKeep, nil
	default:
		return obj, verdictStore, nil
	}
}

// reconcile defaults, admits and validates what the writer sent, having put back what may not be written.
func (s *Server) reconcile(k *kind, through subresource, obj, old Object) (Object, error) {
	k.defaults(obj)
	obj = split(k, obj, old, through == throughStatus)
	m, was := metaOf(obj), metaOf(old)
	m.Generation = was.Generation
	keepMeta(m, was)
	errs := rules.ValidateMetaUpdate(m, was, k.custom != nil)
	switch through {
	case throughStatus:
		k.prepareStatus(s.timestamp(), obj, old)
		errs = append(errs, k.validateStatus(obj, old)...)
	case throughFinalize:
		errs = append(errs, rules.ValidateNamespaceFinalize(obj.(*corev1.Namespace))...)
	default:
		k.prepareUpdate(s.timestamp(), obj, old)
		errs = append(errs, k.validateUpdate(obj, old)...)
	}
	if len(errs) > 0 {
		return nil, invalid(k, m.Name, errs)
	}
	if through == throughMain {
		return obj, s.admitUpdate(obj, old)
	}
	return obj, nil
}

// preconditions checks the UID and the resourceVersion a writer gives.
func preconditions(k *kind, c change, m, was *metav1.ObjectMeta) error {
	if c.whole && m.UID != "" && m.UID != was.UID {
		return apierrors.NewConflict(k.groupResource(), m.Name, uidError(k, c.namespace, c.name, m.UID, was.UID))
	}
	switch {
	case m.ResourceVersion == was.ResourceVersion:
		return nil
	case m.ResourceVersion != "" && m.ResourceVersion != "0":
		if _, err := strconv.ParseUint(m.ResourceVersion, 10, 64); err != nil {
			return internalError(err.Error())
		}
		return apierrors.NewConflict(k.groupResource(), m.Name, errors.New(staleMsg))
	case k.allowUnconditionalUpdate:
		m.ResourceVersion = was.ResourceVersion
		return nil
	default:
		return apierrors.NewInvalid(schema.GroupKind{Group: k.gvk.Group, Kind: k.resource}, m.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
}

// split puts back what the writer may not write here: the status, or all but the status.
func split(k *kind, obj, old Object, status bool) Object {
	switch {
	case k.copyStatus == nil:
		return obj
	case !status:
		k.copyStatus(obj, old)
		return obj
	}
	to := k.shallow(old)
	k.copyStatus(to, obj)
	if k.statusUpdatesMetadata {
		*metaOf(to) = *metaOf(obj)
	} else {
		to.SetResourceVersion(obj.GetResourceVersion())
		to.SetManagedFields(obj.GetManagedFields())
	}
	return to
}

// keepMeta puts back what no update may change.
func keepMeta(m, was *metav1.ObjectMeta) {
	if m.UID == "" {
		m.UID = was.UID
	}
	m.CreationTimestamp = was.CreationTimestamp
	if was.DeletionTimestamp != nil {
		m.DeletionTimestamp = was.DeletionTimestamp
	}
	if m.DeletionGracePeriodSeconds == nil {
		m.DeletionGracePeriodSeconds = was.DeletionGracePeriodSeconds
	}
}

// isLastUpdate tells whether an update takes away what kept a deleted object from going.
func isLastUpdate(m, was *metav1.ObjectMeta) bool {
	return len(m.Finalizers) == 0 && was.DeletionTimestamp != nil &&
		(was.DeletionGracePeriodSeconds == nil || *was.DeletionGracePeriodSeconds == 0)
}

// hasNoSpecFinalizers tells whether nothing but its metadata's finalizers keeps an object. A namespace has others.
func hasNoSpecFinalizers(obj Object) bool {
	ns, ok := obj.(*corev1.Namespace)
	return !ok || len(ns.Spec.Finalizers) == 0
}

// inNamespace sees to it that an object is in the namespace of its request, or in none.
func inNamespace(k *kind, m *metav1.ObjectMeta, namespace string) error {
	switch {
	case !k.namespaced:
		m.Namespace = ""
	case m.Namespace == "":
		m.Namespace = namespace
	case m.Namespace != namespace:
		return apierrors.NewBadRequest(namespaceMsg)
	}
	return nil
}

// same reports whether two objects have the same wire form.
func same(a, b any) bool {
	if c, ok := a.(*CustomObject); ok {
		d := b.(*CustomObject)
		return rules.Same(&c.ObjectMeta, &d.ObjectMeta) && equality.Semantic.DeepEqual(c.Content, d.Content)
	}
	return rules.Same(a.(rules.Message), b.(rules.Message))
}

func uidError(k *kind, namespace, name string, asked, is types.UID) error {
	folder := k.resource
	if k.custom != nil {
		folder = k.gvk.Group + "/" + folder
	}
	return storageError(folder, key(namespace, name), preconditionError("UID", asked, is))
}

// storageError is what the store of the real server says of an object that is not as presumed.
func storageError(folder, key string, err error) error {
	return fmt.Errorf("StorageError: invalid object, Code: 4, Key: /registry/%s/%s, ResourceVersion: 0, "+
		"AdditionalErrorMsg: %w", folder, key, err)
}

func invalid(k *kind, name string, errs field.ErrorList) error {
	if k.invalid.Kind != "" {
		return apierrors.NewInvalid(k.invalid, name, errs)
	}
	return apierrors.NewInvalid(k.gvk.GroupKind(), name, errs)
}

// internalError is the status of an error that the server has no status for.
func internalError(msg string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonUnknown, Message: msg,
	}}
}
