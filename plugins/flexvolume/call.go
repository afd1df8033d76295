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

// The names of the calls.
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

// The keys of the options that a program receives besides the volume's own.
const (
	keyFSType         = "kubernetes.io/fsType"
	keyReadWrite      = "kubernetes.io/readwrite"
	keyName           = "kubernetes.io/pvOrVolumeName"
	keyPodName        = "kubernetes.io/pod.name"
	keyPodNamespace   = "kubernetes.io/pod.namespace"
	keyPodUID         = "kubernetes.io/pod.uid"
	keyServiceAccount = "kubernetes.io/serviceAccount.name"
)

// runTimeout bounds how long a program may run.
//
// Differs: upstream waits indefinitely, and blocks every other operation on that volume.
const runTimeout = 2 * time.Minute

// A Runner runs a program and returns its output. It returns an error if the program cannot be run,
// does not end in time, or exits with a failure.
type Runner func(ctx context.Context, program string, args ...string) ([]byte, error)

// Exec runs a program of this machine, for at most two minutes. It may be called concurrently.
func Exec(ctx context.Context, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.WaitDelay = time.Second // for children that keep the output open
	return command.CombinedOutput()
}

// An answer is what a program prints.
//
// Upstream: pkg/volume/flexvolume DriverStatus (v1.36).
type answer struct {
	Status       string       `json:"status"`
	Message      string       `json:"message"`
	Device       string       `json:"device"`
	Capabilities capabilities `json:"capabilities"`
}

// capabilities are the relevant capabilities of a program.
type capabilities struct {
	Attach bool `json:"attach"`
}

// The values of a program's status.
const (
	statusSuccess      = "Success"
	statusNotSupported = "Not supported"
)

// errNotSupported is the error of a call that the program does not support.
var errNotSupported = errors.New("not supported")

// uncertain returns the error of a call that may have had its effect.
func uncertain(err error) error { return &plugins.Error{Class: plugins.Uncertain, Err: err} }

// call runs the program. object is the volume, for the record. The error is errNotSupported, Final
// if the program reports a failure, or Uncertain if it gave no answer.
//
// Differs: upstream takes a program without an answer for one that failed.
//
// Upstream: pkg/volume/flexvolume DriverCall.Run (v1.36).
func (p *plugin) call(ctx context.Context, object, name string, args ...string) (answer, error) {
	if p.unsupported[name] {
		return answer{}, errNotSupported
	}
	var a answer
	var failure error
	action := trace.Action{Kind: trace.KindDriver, Verb: name, Object: path.Join(p.name, object)}
	out := p.cfg.Caller.Call(action, func() trace.Outcome {
		output, err := p.cfg.Run(ctx, p.program, append([]string{name}, args...)...)
		a, failure = parseAnswer(name, output, err)
		return trace.Outcome{Err: failure}
	})
	if out.Err != nil && failure == nil {
		return answer{}, uncertain(fmt.Errorf("%s: %w", name, out.Err)) // the call was not delivered
	}
	if errors.Is(failure, errNotSupported) {
		p.unsupported[name] = true
	}
	return a, failure
}

// parseAnswer parses the output of a call. runErr is the error of running the program: a program
// that fails reports it in both ways.
//
// Upstream: pkg/volume/flexvolume handleCmdResponse (v1.36).
func parseAnswer(call string, output []byte, runErr error) (answer, error) {
	a := answer{Capabilities: capabilities{Attach: true}}
	switch err := json.Unmarshal(output, &a); {
	case err != nil:
		return answer{}, uncertain(fmt.Errorf("%s: no answer: %w", call, cmp.Or(runErr, err)))
	case a.Status == statusNotSupported:
		return answer{}, errNotSupported
	case a.Status != statusSuccess:
		return answer{}, fmt.Errorf("%s command failed, status: %s, reason: %s", call, a.Status, a.Message)
	case runErr != nil:
		return answer{}, uncertain(fmt.Errorf("%s: status %s, but: %w", call, a.Status, runErr))
	default:
		return a, nil
	}
}

// A volume is a FlexVolume source of a pod or a PersistentVolume.
type volume struct {
	driver, fsType string
	readOnly       bool
	secret         bool
	options        map[string]string
}

// volumeOf returns the FlexVolume source, or nil for a volume of another kind.
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

// driverOptions returns the JSON options for the program: those of the volume, and those of the
// pod, if any.
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
