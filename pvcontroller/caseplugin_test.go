package pvcontroller

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/casefile"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// pluginName is the name of the plugin that the cases script.
const pluginName = "kubernetes.io/mock-volume"

// script lists the calls of a case's plugin with their answers. Each line is "CALL -> ANSWER"; the
// answer is ok, or error or in-use with a text in quotes. Whether the plugin returns an operation
// at all is checked each time; the default is that it does.
type script struct {
	component *sim.Process
	lines     []casefile.Line
	next      int
	problem   func(format string, args ...any)
}

// call is one call of the plugin: it must be the next one of the script.
func (s *script) call(text string) error {
	verb, object, _ := strings.Cut(text, " ")
	return s.component.Call(trace.Action{Kind: trace.KindDriver, Verb: verb, Object: object}, func() trace.Outcome {
		if s.next == len(s.lines) {
			s.problem("the plugin is asked: %s", text)
			return trace.Outcome{Err: errors.New("not in the script")}
		}
		line := s.lines[s.next]
		s.next++
		want, answer, _ := strings.Cut(line.Text, " -> ")
		if want != text {
			s.problem("%s: the plugin is asked: %s", line.At, text)
		}
		return trace.Outcome{Err: answerOf(answer)}
	}).Err
}

// refusal returns the error with which the plugin refuses to return an operation, if that is the
// next line of the script.
func (s *script) refusal(text string) error {
	if s.next == len(s.lines) {
		return nil
	}
	want, answer, _ := strings.Cut(s.lines[s.next].Text, " -> ")
	if want != text {
		return nil
	}
	s.next++
	return answerOf(answer)
}

func (s *script) checkLines() error {
	for _, line := range s.lines {
		_, answer, found := strings.Cut(line.Text, " -> ")
		if !found || answer != "ok" && answerOf(answer) == nil {
			return fmt.Errorf("%s: want CALL -> ok, or error or in-use with a text in quotes", line.At)
		}
	}
	return nil
}

// answerOf parses an answer. It returns nil for ok and for malformed answers.
func answerOf(answer string) error {
	kind, quoted, _ := strings.Cut(answer, " ")
	text, err := strconv.Unquote(quoted)
	switch {
	case err != nil:
		return nil
	case kind == "error":
		return errors.New(text)
	case kind == "in-use":
		return &plugins.InUseError{Text: text}
	default:
		return nil
	}
}

// provisionOnly is a plugin that creates volumes.
type provisionOnly struct{ *script }

// wholePlugin is a plugin that also deletes and recycles them.
type wholePlugin struct{ provisionOnly }

var (
	_ plugins.Provisioner = provisionOnly{}
	_ plugins.Deleter     = wholePlugin{}
	_ plugins.Recycler    = wholePlugin{}
)

func (provisionOnly) Name() string                                  { return pluginName }
func (provisionOnly) CanSupport(*plugins.Spec) bool                 { return true }
func (provisionOnly) VolumeName(spec *plugins.Spec) (string, error) { return spec.Name(), nil }
func (provisionOnly) SupportsMountOptions() bool                    { return false }

func (p provisionOnly) CanProvision(opts plugins.ProvisionOptions) error {
	return p.refusal("would provision " + opts.Name)
}

func (p provisionOnly) Provision(_ context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error) {
	text := "provision " + opts.Name
	if len(opts.Parameters) > 0 {
		text += " " + tellMap(opts.Parameters)
	}
	if opts.SelectedNode != nil {
		text += " on " + opts.SelectedNode.Name
	}
	if err := p.call(text); err != nil {
		return nil, err
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: opts.Name}}
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: requestOf(opts.Claim)}
	volume.Spec.AccessModes = opts.Claim.Spec.AccessModes
	volume.Spec.VolumeMode = ptr.To(*opts.Claim.Spec.VolumeMode)
	volume.Spec.PersistentVolumeReclaimPolicy = opts.ReclaimPolicy
	volume.Spec.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: "disk"}
	return volume, nil
}

func (p wholePlugin) CanDelete(spec *plugins.Spec) error {
	return p.refusal("would delete " + spec.Name())
}

func (p wholePlugin) Delete(_ context.Context, spec *plugins.Spec) error {
	return p.call("delete " + spec.Name())
}

func (p wholePlugin) Recycle(_ context.Context, opts plugins.RecycleOptions) error {
	if err := opts.Acquire("mock"); err != nil {
		return err
	}
	return p.call("recycle " + opts.Volume)
}
