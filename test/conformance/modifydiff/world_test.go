package modifydiff

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/external-resizer/v2/pkg/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
	"github.com/volsim/volsim/test/conformance/histories/storeddriver"
)

const (
	driverName = "disk.example.com"
	namespace  = "default"
	// keyOutcome is the key of what the driver answers, and the others are volumes.
	keyOutcome = "outcome"
)

var ctx = context.Background()

// A world is an API server with its users: all but the controllers.
type world struct{ *controllers.World }

func newWorld(base *controllers.World) *world {
	w := &world{base}
	if err := newDriver(base.Client).Create(ctx, nil); err != nil {
		panic(err)
	}
	base.Server.OnCommit(func(c fake.Commit) {
		if e, is := c.After.(*corev1.Event); is {
			w.Events.Add(e, fmt.Sprintf("event %s %s about %s %s: %s", e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name,
				strings.TrimPrefix(e.Message, "(combined from similar events): ")))
		} else if c.Type == watch.Added {
			w.Events.Name(c.After.GetUID(), "%s#%d", c.Resource+"/"+c.After.GetName())
		}
	})
	return w
}

// Tick removes the finalizers of what is deleted.
func (w *world) Tick() error {
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		if obj.GetDeletionTimestamp() == nil {
			continue
		}
		claim := obj.DeepCopyObject().(*corev1.PersistentVolumeClaim)
		claim.Finalizers = nil
		if _, err := w.Client.CoreV1().PersistentVolumeClaims(namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("protection: %w", err)
		}
	}
	return nil
}

// State describes the world in words that do not depend on it.
func (w *world) State() histories.State {
	var lines []string
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		c := obj.(*corev1.PersistentVolumeClaim)
		line := fmt.Sprintf("claim %s wants %q, has %q", c.UID, ptr.Deref(c.Spec.VolumeAttributesClassName, ""),
			ptr.Deref(c.Status.CurrentVolumeAttributesClassName, ""))
		if s := c.Status.ModifyVolumeStatus; s != nil {
			line += fmt.Sprintf(", %s to %q", s.Status, s.TargetVolumeAttributesClassName)
		}
		for _, condition := range c.Status.Conditions {
			line += fmt.Sprintf(", %s %s %s %q", condition.Type, condition.Status, condition.Reason, condition.Message)
		}
		lines = append(lines, line)
	}
	for _, obj := range w.Server.List("persistentvolumes") {
		v := obj.(*corev1.PersistentVolume)
		lines = append(lines, fmt.Sprintf("volume %s has %q", v.Name, ptr.Deref(v.Spec.VolumeAttributesClassName, "")))
	}
	state := storeddriver.Stored(w.Server, namespace)
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if key != keyOutcome {
			lines = append(lines, "driver "+key+": "+state[key])
		}
	}
	return w.Events.State(lines)
}

// driver answers calls from its state. It is a connection, and upstream's client.
type driver struct {
	grpc.ClientConnInterface
	csi.Client

	storeddriver.State
}

func newDriver(client kubernetes.Interface) driver {
	return driver{State: storeddriver.State{Client: client, Namespace: namespace}}
}

// Modify is upstream's call. The effect is that the driver has the parameters.
func (d driver) Modify(ctx context.Context, volume string, secrets, parameters map[string]string) error {
	_, err := d.Call(ctx, keyOutcome, func(state map[string]string) { state[volume] = fmt.Sprint(parameters, " ", secrets) })
	return err
}

// SupportsControllerModify returns true.
func (driver) SupportsControllerModify(context.Context) (bool, error) { return true, nil }

// Invoke makes a call of our resizer.
func (d driver) Invoke(ctx context.Context, method string, request, reply any, _ ...grpc.CallOption) error {
	switch r := request.(type) {
	case *csispec.ControllerGetCapabilitiesRequest:
		return storeddriver.Answer(reply, storeddriver.Capabilities(csispec.ControllerServiceCapability_RPC_MODIFY_VOLUME), nil)
	case *csispec.ControllerModifyVolumeRequest:
		return d.Modify(ctx, r.GetVolumeId(), r.GetSecrets(), r.GetMutableParameters())
	default:
		return status.Error(codes.Unimplemented, method)
	}
}
