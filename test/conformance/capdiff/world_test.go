package capdiff

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

const (
	driverName = "disk.example.com"
	namespace  = "default" // of the published objects
	// driverState is the ConfigMap with the state of the driver. Controllers have nothing but a client.
	driverState = "driver"
)

var ctx = context.Background()

// A world is an API server with its users: all but the controllers.
type world struct{ *controllers.World }

func newWorld(base *controllers.World) *world {
	_, err := base.Client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: driverState}}, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
	return &world{base}
}

// Tick does nothing: there are no pods.
func (w *world) Tick() error { return nil }

// published returns the CSIStorageCapacity objects, in the order of their texts.
func (w *world) published() []*storagev1.CSIStorageCapacity {
	var all []*storagev1.CSIStorageCapacity
	for _, obj := range w.Server.List("csistoragecapacities") {
		all = append(all, obj.DeepCopyObject().(*storagev1.CSIStorageCapacity))
	}
	slices.SortFunc(all, func(a, b *storagev1.CSIStorageCapacity) int { return strings.Compare(describe(a), describe(b)) })
	return all
}

func describe(o *storagev1.CSIStorageCapacity) string {
	var owners []string
	for _, owner := range o.OwnerReferences {
		owners = append(owners, fmt.Sprintf("%s %s %v", owner.Kind, owner.UID, owner.Controller != nil && *owner.Controller))
	}
	return fmt.Sprintf("class %s, topology %s: %v, at most %v, labels %v, owners %q, generated %v", o.StorageClassName,
		metav1.FormatLabelSelector(o.NodeTopology), o.Capacity, o.MaximumVolumeSize, o.Labels, owners, o.GenerateName)
}

// State returns the objects as text.
func (w *world) State() histories.State {
	state := histories.State{}
	for _, o := range w.published() {
		state = append(state, describe(o))
	}
	return state
}

// driver answers requests for capacity from its state. It is a connection, and upstream's client.
type driver struct {
	grpc.ClientConnInterface

	client kubernetes.Interface
}

// placeOf returns the key of the driver's state for a class and a segment.
func placeOf(parameters, segment map[string]string) string {
	words := []string{"pool-" + parameters["pool"]}
	for _, key := range slices.Sorted(maps.Keys(segment)) {
		words = append(words, key+"-"+segment[key])
	}
	return strings.Join(words, ".")
}

// GetCapacity returns the free capacity, and half of it as the maximum volume size of even amounts of
// mebibytes.
func (d driver) GetCapacity(ctx context.Context, r *csispec.GetCapacityRequest, _ ...grpc.CallOption) (*csispec.GetCapacityResponse, error) {
	state, err := d.client.CoreV1().ConfigMaps(namespace).Get(ctx, driverState, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if state.Data["fails"] == "true" {
		return nil, errors.New("the driver is ill")
	}
	response := &csispec.GetCapacityResponse{}
	if size := state.Data[placeOf(r.GetParameters(), r.GetAccessibleTopology().GetSegments())]; size != "" {
		free := resource.MustParse(size)
		response.AvailableCapacity = free.Value()
		if free.Value()>>20%2 == 0 {
			response.MaximumVolumeSize = wrapperspb.Int64(free.Value() / 2)
		}
	}
	return response, nil
}

// Invoke calls GetCapacity.
func (d driver) Invoke(ctx context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	r, ok := request.(*csispec.GetCapacityRequest)
	if !ok {
		return fmt.Errorf("unexpected call of %s", method)
	}
	response, err := d.GetCapacity(ctx, r)
	if err == nil {
		proto.Merge(reply.(proto.Message), response)
	}
	return err
}
