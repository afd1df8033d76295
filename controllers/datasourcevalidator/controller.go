package datasourcevalidator

import (
	"context"
	_ "embed" // of Definition

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim"
)

// EventSource is the source of the controller's events.
const EventSource = "data-source-validator"

// The event.
//
// Upstream: pkg/data-source-validator syncPvcByKey (v1.8), to the letter.
const (
	reasonUnrecognized  = "UnrecognizedDataSourceKind"
	messageUnrecognized = "The data source for this PVC does not match any registered VolumePopulator"
)

// Definition is the CustomResourceDefinition of VolumePopulator, as YAML.
//
//go:embed definition.yaml
var Definition string

// populators is the kind of registrations.
var populators = customresource.Kind[volumePopulator, *volumePopulator]{
	Resource: schema.GroupVersionResource{Group: "populator.storage.k8s.io", Version: "v1beta1", Resource: "volumepopulators"},
	Name:     "VolumePopulator",
}

// A volumePopulator is the registration of a populator.
type volumePopulator struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	SourceKind metav1.GroupKind `json:"sourceKind"`
}

// Config configures New.
type Config struct {
	Process   *sim.Process
	Informers informers.SharedInformerFactory // must serve VolumePopulators
	Recorder  record.EventRecorder
}

// controller warns of claims. Its state belongs to the tasks of its process.
type controller struct {
	recorder   record.EventRecorder
	claims     corelisters.PersistentVolumeClaimLister
	populators customresource.Cache[volumePopulator, *volumePopulator]
	queue      *sim.Queue[cache.ObjectName] // of claims
	told       map[types.UID]struct{}       // claims with the warning
}

// New adds the controller to its process. It registers with the informers, and adds a queue with one
// worker to the process. It must be called before the host starts. It fails if VolumePopulators are not
// served.
//
// Differs: the warning is recorded once; upstream repeats it with each change of the claim.
func New(cfg Config) error {
	claims := cfg.Informers.Core().V1().PersistentVolumeClaims()
	known, informer, err := populators.Cache(cfg.Informers)
	if err != nil {
		return err
	}
	c := &controller{
		recorder: cfg.Recorder, claims: claims.Lister(), populators: known,
		queue: sim.NewQueue[cache.ObjectName](cfg.Process, sim.QueueConfig{Name: "pvc"}), told: map[types.UID]struct{}{},
	}
	eventhandler.Add(claims.Informer(), func(_, claim *corev1.PersistentVolumeClaim) {
		if NeedsPopulator(claim) {
			c.queue.Add(cache.MetaObjectToName(claim))
		}
	}, func(claim *corev1.PersistentVolumeClaim) { delete(c.told, claim.UID) })
	cfg.Process.GateWorkers(claims.Informer().HasSynced)
	cfg.Process.GateWorkers(informer.HasSynced)
	c.queue.Work(c.sync)
	return nil
}

// NeedsPopulator reports whether a claim has a data source that is neither a claim nor a snapshot.
func NeedsPopulator(claim *corev1.PersistentVolumeClaim) bool {
	source := claim.Spec.DataSource
	return source != nil && source.APIGroup != nil && !isBuiltIn(metav1.GroupKind{Group: *source.APIGroup, Kind: source.Kind})
}

// isBuiltIn reports whether provisioners handle a kind of data sources.
func isBuiltIn(kind metav1.GroupKind) bool {
	return kind == metav1.GroupKind{Kind: "PersistentVolumeClaim"} ||
		kind == metav1.GroupKind{Group: snapshotapi.Group, Kind: "VolumeSnapshot"}
}

// sync warns of a claim whose data source no populator handles.
//
// Upstream: pkg/data-source-validator syncPvcByKey (v1.8).
func (c *controller) sync(_ context.Context, key cache.ObjectName) error {
	claim, err := c.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name)
	if err != nil || !NeedsPopulator(claim) {
		return nil //nolint:nilerr // deleted
	}
	if _, told := c.told[claim.UID]; told || c.isHandled(metav1.GroupKind{Group: *claim.Spec.DataSource.APIGroup, Kind: claim.Spec.DataSource.Kind}) {
		return nil
	}
	c.told[claim.UID] = struct{}{}
	c.recorder.Event(claim, corev1.EventTypeWarning, reasonUnrecognized, messageUnrecognized)
	return nil
}

// isHandled reports whether a provisioner or a populator handles a kind of data sources.
//
// Upstream: pkg/data-source-validator validateGroupKind (v1.8).
func (c *controller) isHandled(kind metav1.GroupKind) bool {
	if isBuiltIn(kind) {
		return true
	}
	for _, p := range c.populators.List("") {
		if p.SourceKind == kind {
			return true
		}
	}
	return false
}
