// Package storeddriver is the state of a CSI driver in an object of the API server, for comparisons in which
// controllers have nothing but a client.
//
//	state := storeddriver.State{Client: client, Namespace: "default"}
//	after, err := state.Call(ctx, "create", func(data map[string]string) { data["volume.1"] = "1 GiB" })
//
// A key of the state is a kind of call, and its value how such a call is answered; see DrawOutcome. The other keys
// are what the driver has.
package storeddriver

import (
	"context"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
)

const (
	// name is that of the ConfigMap with the state.
	name = "driver"
	// afterEffect is the prefix of the outcome of a call whose answer is an error after it had its effect.
	afterEffect = "after."
)

// A State is the state of a driver.
type State struct {
	Client    kubernetes.Interface
	Namespace string
}

// Create stores the first state.
func (s State) Create(ctx context.Context, data map[string]string) error {
	state := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	_, err := s.Client.CoreV1().ConfigMaps(s.Namespace).Create(ctx, state, metav1.CreateOptions{})
	return err
}

// Stored returns the state in a server.
func Stored(server *fake.Server, namespace string) map[string]string {
	state, _ := histories.Stored[*corev1.ConfigMap](server, "configmaps", namespace, name)
	return state.Data
}

// Change changes the state.
func (s State) Change(ctx context.Context, change func(data map[string]string)) error {
	all := s.Client.CoreV1().ConfigMaps(s.Namespace)
	for {
		state, err := all.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		state = state.DeepCopy()
		if state.Data == nil {
			state.Data = map[string]string{}
		}
		change(state.Data)
		if _, err = all.Update(ctx, state, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// Set sets a key of the state.
func (s State) Set(ctx context.Context, key, value string) error {
	return s.Change(ctx, func(data map[string]string) { data[key] = value })
}

// Call makes a call: effect changes the state, which is returned. The outcome of the kind of call decides whether it
// has its effect, and whether it fails.
func (s State) Call(ctx context.Context, kind string, effect func(data map[string]string)) (after map[string]string, err error) {
	var failed error
	err = s.Change(ctx, func(data map[string]string) {
		failed = nil
		outcome, hasEffect := strings.CutPrefix(data[kind], afterEffect)
		if code := codeNamed(outcome); code != codes.OK {
			failed = status.Error(code, "the driver is ill")
		}
		if failed == nil || hasEffect {
			effect(data)
		}
		after = data
	})
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return after, failed
}

// codeNamed returns the code of a name; OK for another text.
func codeNamed(name string) codes.Code {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code.String() == name {
			return code
		}
	}
	return codes.OK
}

// DrawOutcome draws the outcome of a kind of call: "" for success, or the name of a code, "after.CODE" if the call has
// its effect before. The codes are those that callers treat in different ways, and more.
func DrawOutcome(t *rapid.T, more ...codes.Code) string {
	if !rapid.Bool().Draw(t, "fails") {
		return ""
	}
	var names []string
	for _, code := range append(more,
		codes.Aborted, codes.DeadlineExceeded, codes.Unavailable, codes.InvalidArgument, codes.ResourceExhausted, codes.Internal) {
		names = append(names, code.String())
	}
	slices.Sort(names)
	outcome := histories.OneOf(names...).Draw(t, "code")
	if histories.OneIn(t, 3, "after") {
		outcome = afterEffect + outcome
	}
	return outcome
}

// Capabilities returns the answer of a controller service with capabilities.
func Capabilities(all ...csispec.ControllerServiceCapability_RPC_Type) *csispec.ControllerGetCapabilitiesResponse {
	response := &csispec.ControllerGetCapabilitiesResponse{}
	for _, one := range all {
		response.Capabilities = append(response.Capabilities, &csispec.ControllerServiceCapability{
			Type: &csispec.ControllerServiceCapability_Rpc{Rpc: &csispec.ControllerServiceCapability_RPC{Type: one}},
		})
	}
	return response
}

// Answer answers a call, or returns its error.
func Answer(reply any, response proto.Message, err error) error {
	if err == nil {
		proto.Merge(reply.(proto.Message), response)
	}
	return err
}

// Conn returns a connection whose calls are answered without a server, for programs that need this type.
func Conn(driver grpc.ClientConnInterface) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///driver", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, request, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			return driver.Invoke(ctx, method, request, reply)
		}))
}
