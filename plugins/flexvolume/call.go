package flexvolume

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim/trace"
)

// The calls.
const (
	callInit          = "init"
	callAttach        = "attach"
	callWaitForAttach = "waitforattach"
	callDetach        = "detach"
	callMountDevice   = "mountdevice"
	callUnmountDevice = "unmountdevice"
	callMount         = "mount"
	callUnmount       = "unmount"
)

// The keys of what a program is told of a volume, besides the volume's own options.
const (
	keyFSType         = "kubernetes.io/fsType"
	keyReadWrite      = "kubernetes.io/readwrite"
	keyName           = "kubernetes.io/pvOrVolumeName"
	keyPodName        = "kubernetes.io/pod.name"
	keyPodNamespace   = "kubernetes.io/pod.namespace"
	keyPodUID         = "kubernetes.io/pod.uid"
	keyServiceAccount = "kubernetes.io/serviceAccount.name"
)

// runTimeout is how long a program may run.
//
// Differs: upstream waits for ever, and with it whoever has to do with that volume.
const runTimeout = 2 * time.Minute

// Runner runs a program and returns what it printed. The error is that it could not be run, did not end in time or said that
// it failed.
type Runner func(ctx context.Context, program string, args ...string) ([]byte, error)

// Exec runs a program of this machine, for two minutes at most. It may be used concurrently.
func Exec(ctx context.Context, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.WaitDelay = time.Second // for whom the program left behind with its output
	return command.CombinedOutput()
}

// answer is what a program prints.
//
// Upstream: pkg/volume/flexvolume DriverStatus (v1.36).
type answer struct {
	Status       string       `json:"status"`
	Message      string       `json:"message"`
	Device       string       `json:"device"`
	Capabilities capabilities `json:"capabilities"`
}

// capabilities is what a program can do, as far as it matters here.
type capabilities struct {
	Attach bool `json:"attach"`
}

// What a program's status is.
const (
	statusSuccess      = "Success"
	statusNotSupported = "Not supported"
)

// errNotSupported says that a program does not know a call.
var errNotSupported = errors.New("not supported")

// uncertain is the error of a call of which nobody knows whether it had its effect.
func uncertain(err error) error { return &plugins.Error{Class: plugins.Uncertain, Err: err} }

// call runs the program. of is the volume, for the record. The error is errNotSupported, or is Final when the program says that
// it failed, and Uncertain when it gave no answer.
//
// Differs: upstream takes a program that gave no answer for one that failed.
//
// Upstream: pkg/volume/flexvolume DriverCall.Run (v1.36).
func (p *plugin) call(ctx context.Context, of, name string, args ...string) (answer, error) {
	if p.unsupported[name] {
		return answer{}, errNotSupported
	}
	var a answer
	var failure error
	action := trace.Action{Kind: trace.KindDriver, Verb: name, Object: path.Join(p.name, of)}
	out := p.cfg.Caller.Call(action, func() trace.Outcome {
		printed, err := p.cfg.Run(ctx, p.program, append([]string{name}, args...)...)
		a, failure = parseAnswer(name, printed, err)
		return trace.Outcome{Err: failure}
	})
	if out.Err != nil && failure == nil {
		return answer{}, uncertain(fmt.Errorf("%s: %w", name, out.Err)) // the call went wrong on the way
	}
	if errors.Is(failure, errNotSupported) {
		p.unsupported[name] = true
	}
	return a, failure
}

// parseAnswer reads what was printed in answer to a call. ran is how running the program ended: one that fails says so twice.
//
// Upstream: pkg/volume/flexvolume handleCmdResponse (v1.36).
func parseAnswer(call string, printed []byte, ran error) (answer, error) {
	a := answer{Capabilities: capabilities{Attach: true}}
	switch err := json.Unmarshal(printed, &a); {
	case err != nil:
		return answer{}, uncertain(fmt.Errorf("%s: no answer: %w", call, cmp.Or(ran, err)))
	case a.Status == statusNotSupported:
		return answer{}, errNotSupported
	case a.Status != statusSuccess:
		return answer{}, fmt.Errorf("%s command failed, status: %s, reason: %s", call, a.Status, a.Message)
	case ran != nil:
		return answer{}, uncertain(fmt.Errorf("%s: it says that it succeeded: %w", call, ran))
	default:
		return a, nil
	}
}

// volume is what is said of a volume, in a pod or by itself.
type volume struct {
	driver, fsType string
	readOnly       bool
	secret         bool
	options        map[string]string
}

// volumeOf is nil for a volume of another kind.
//
// Upstream: pkg/volume/flexvolume getDriver, getFSType, getReadOnly, getOptions (v1.36).
func volumeOf(spec *plugins.Spec) *volume {
	switch {
	case spec.Volume != nil && spec.Volume.FlexVolume != nil:
		v := spec.Volume.FlexVolume
		return &volume{v.Driver, v.FSType, v.ReadOnly, v.SecretRef != nil, v.Options}
	case spec.PersistentVolume != nil && spec.PersistentVolume.Spec.FlexVolume != nil:
		v := spec.PersistentVolume.Spec.FlexVolume
		return &volume{v.Driver, v.FSType, spec.ReadOnly, v.SecretRef != nil, v.Options}
	default:
		return nil
	}
}

// driverOptions is what a program is told of a volume, and of the pod that it is for, if any.
//
// Upstream: pkg/volume/flexvolume NewOptionsForDriver (v1.36).
func driverOptions(spec *plugins.Spec, pod *corev1.Pod) (string, error) {
	v := volumeOf(spec)
	if v == nil {
		return "", errNotFlex
	}
	options := map[string]string{keyFSType: v.fsType, keyReadWrite: "rw", keyName: spec.Name()}
	if v.readOnly {
		options[keyReadWrite] = "ro"
	}
	if pod != nil {
		options[keyPodName], options[keyPodNamespace] = pod.Name, pod.Namespace
		options[keyPodUID], options[keyServiceAccount] = string(pod.UID), pod.Spec.ServiceAccountName
	}
	maps.Copy(options, v.options)
	text, err := json.Marshal(options)
	return string(text), err
}
