package flexvolume

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim/trace"
)

// The names of the calls.
//
// A program may also support expandvolume. Nothing calls it, as upstream: its expand controller does
// not look for drivers.
const (
	callInit          = "init"
	callGetVolumeName = "getvolumename"
	callAttach        = "attach"
	callIsAttached    = "isattached"
	callWaitForAttach = "waitforattach"
	callDetach        = "detach"
	callMountDevice   = "mountdevice"
	callUnmountDevice = "unmountdevice"
	callMount         = "mount"
	callUnmount       = "unmount"
	callExpandFS      = "expandfs"
)

// onlyReads are the calls that change nothing.
var onlyReads = map[string]bool{
	callInit: true, callGetVolumeName: true, callIsAttached: true, callWaitForAttach: true,
}

// The keys of the options that a program receives besides the volume's own.
const (
	keyFSType         = "kubernetes.io/fsType"
	keyReadWrite      = "kubernetes.io/readwrite"
	keyName           = "kubernetes.io/pvOrVolumeName"
	keyPodName        = "kubernetes.io/pod.name"
	keyPodNamespace   = "kubernetes.io/pod.namespace"
	keyPodUID         = "kubernetes.io/pod.uid"
	keyServiceAccount = "kubernetes.io/serviceAccount.name"
	keyFSGroup        = "kubernetes.io/mounterArgs.FsGroup"
	keySecret         = "kubernetes.io/secret/" // prefix of the keys of a secret
)

// An answer is what a program prints.
//
// Upstream: pkg/volume/flexvolume DriverStatus (v1.36).
type answer struct {
	Status       string       `json:"status"`
	Message      string       `json:"message"`
	Device       string       `json:"device"`
	Attached     bool         `json:"attached"`
	Capabilities capabilities `json:"capabilities"`
}

// capabilities are the capabilities of a program. The kubelet here does not relabel files, so
// selinuxRelabel has no effect.
//
// Upstream: pkg/volume/flexvolume DriverCapabilities (v1.36).
type capabilities struct {
	Attach           bool `json:"attach"`
	SELinuxRelabel   bool `json:"selinuxRelabel"`
	SupportsMetrics  bool `json:"supportsMetrics"`
	FSGroup          bool `json:"fsGroup"`
	RequiresFSResize bool `json:"requiresFSResize"`
}

// defaultCapabilities returns the capabilities of a program that does not mention them.
//
// Upstream: pkg/volume/flexvolume defaultCapabilities (v1.36).
func defaultCapabilities() capabilities {
	return capabilities{Attach: true, SELinuxRelabel: true, FSGroup: true, RequiresFSResize: true}
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

// transient returns the error of a call that changed nothing.
func transient(err error) error {
	if err == nil {
		return nil
	}
	return &plugins.Error{Class: plugins.Transient, Err: err}
}

// call runs the program. object is the volume, for the record. The error is errNotSupported, Final
// if the program reports a failure, or Uncertain if it gave no answer.
//
// Differs: upstream takes a program without an answer for one that failed. It waits for a program
// indefinitely, which blocks every other operation on that volume.
//
// Upstream: pkg/volume/flexvolume DriverCall.Run (v1.36).
func (p *plugin) call(ctx context.Context, object, name string, args ...string) (answer, error) {
	if p.unsupported[name] {
		return answer{}, errNotSupported
	}
	var a answer
	var failure error
	action := trace.Action{Kind: trace.KindDriver, Verb: name, Object: path.Join(p.name, object)}
	out := p.cfg.Process.Call(action, func() trace.Outcome {
		ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.Timeout,
			fmt.Errorf("%s killed after %v", path.Base(p.program), p.cfg.Timeout))
		defer cancel()
		output, err := p.cfg.Run(ctx, p.program, append([]string{name}, args...)...)
		a, failure = parseAnswer(name, output, err)
		return trace.Outcome{Err: failure, Read: onlyReads[name]}
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
	a := answer{Capabilities: defaultCapabilities()}
	switch err := json.Unmarshal(output, &a); {
	case err != nil && len(output) > 0:
		return answer{}, uncertain(fmt.Errorf("%s: no answer: %w; output: %s", call, cmp.Or(runErr, err), excerpt(output)))
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

// excerptMax bounds the part of a program's output that an error quotes, in bytes.
const excerptMax = 200

func excerpt(output []byte) string {
	if len(output) > excerptMax {
		return strconv.Quote(string(output[:excerptMax])) + "…"
	}
	return strconv.Quote(string(output))
}

// A volume is a FlexVolume source of a pod or a PersistentVolume.
type volume struct {
	driver, fsType             string
	readOnly                   bool
	secretName, secretLocation string // its namespace; "": the pod's
	options                    map[string]string
}

// volumeOf returns the FlexVolume source, or nil for a volume of another kind.
//
// Upstream: pkg/volume/flexvolume getDriver, getFSType, getReadOnly, getOptions,
// getSecretNameAndNamespace (v1.36).
func volumeOf(spec *plugins.Spec) *volume {
	switch {
	case spec.Volume != nil && spec.Volume.FlexVolume != nil:
		source := spec.Volume.FlexVolume
		v := &volume{driver: source.Driver, fsType: source.FSType, readOnly: source.ReadOnly, options: source.Options}
		if source.SecretRef != nil {
			v.secretName = source.SecretRef.Name
		}
		return v
	case spec.PersistentVolume != nil && spec.PersistentVolume.Spec.FlexVolume != nil:
		source := spec.PersistentVolume.Spec.FlexVolume
		v := &volume{driver: source.Driver, fsType: source.FSType, readOnly: spec.ReadOnly, options: source.Options}
		if source.SecretRef != nil {
			v.secretName, v.secretLocation = source.SecretRef.Name, source.SecretRef.Namespace
		}
		return v
	default:
		return nil
	}
}

// driverOptions returns the JSON options for the program: those of the volume, which take
// precedence, and further ones.
//
// Upstream: pkg/volume/flexvolume NewOptionsForDriver (v1.36).
func driverOptions(spec *plugins.Spec, further map[string]string) (string, error) {
	v := volumeOf(spec)
	if v == nil {
		return "", errNotFlex
	}
	options := map[string]string{keyFSType: v.fsType, keyReadWrite: "rw", keyName: spec.Name()}
	if v.readOnly {
		options[keyReadWrite] = "ro"
	}
	maps.Copy(options, further)
	maps.Copy(options, v.options)
	text, err := json.Marshal(options)
	return string(text), err
}

// podOptions returns the options of the mount call: the pod, the group of the files and the secret.
//
// Upstream: pkg/volume/flexvolume flexVolumeMounter.SetUpAt (v1.36).
func (p *plugin) podOptions(
	ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, group *int64,
) (map[string]string, error) {
	options := map[string]string{
		keyPodName: pod.Name, keyPodNamespace: pod.Namespace, keyPodUID: string(pod.UID),
		keyServiceAccount: pod.Spec.ServiceAccountName,
	}
	if err := p.addSecret(ctx, options, volumeOf(spec), pod.Namespace); err != nil {
		return nil, err
	}
	if group != nil {
		options[keyFSGroup] = strconv.FormatInt(*group, 10)
	}
	return options, nil
}
