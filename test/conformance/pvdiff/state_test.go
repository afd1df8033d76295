package pvdiff

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
)

// observer tells of the state of a server in words that another server has, too: UIDs are replaced by what they are of.
type observer struct {
	server  *fake.Server
	storage *storage

	mu      sync.Mutex
	uids    []string          // guarded by mu: pairs for a strings.Replacer
	counts  map[string]int    // guarded by mu: resource and key: how many there were
	told    map[string]bool   // guarded by mu: every event
	talk    map[types.UID]int // guarded by mu: by UID: events told about an object, less the periods that passed
	changes int               // guarded by mu: of claims, volumes and what was told
}

func observe(server *fake.Server, storage *storage) *observer {
	o := &observer{server: server, storage: storage, counts: map[string]int{}, told: map[string]bool{}, talk: map[types.UID]int{}}
	server.OnCommit(o.note)
	return o
}

func (o *observer) note(c fake.Commit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch c.Resource {
	case "persistentvolumes", "persistentvolumeclaims":
		o.changes++
		if c.Type == watch.Added {
			o.name(c.Resource, c.After)
		}
	case "events":
		e := c.After.(*corev1.Event)
		o.talk[e.InvolvedObject.UID]++
		if text := eventText(e); !o.told[text] {
			o.told[text] = true
			o.changes++
		}
	}
}

func (o *observer) name(resource string, obj fake.Object) {
	name := strings.NewReplacer(o.uids...).Replace(obj.GetName())
	where := strings.TrimPrefix(resource, "persistent") + "/" + obj.GetNamespace() + "/" + name
	o.counts[where]++
	o.uids = append(o.uids, string(obj.GetUID()), fmt.Sprintf("<%s#%d>", where, o.counts[where]))
}

func (o *observer) revision() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changes
}

// spamBurst is how many events about an object upstream's recorder lets through at once; one more in each period.
//
// Upstream: client-go tools/record defaultSpamBurst.
const spamBurst = 25

// refill notes that a period has passed.
func (o *observer) refill() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for uid, n := range o.talk {
		o.talk[uid] = max(0, n-1)
	}
}

// chatty tells whether so much was told about an object that upstream's recorder drops what comes then.
func (o *observer) chatty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.talk {
		if n >= spamBurst-1 {
			return true
		}
	}
	return false
}

// state is what there is on a server and what was told: a line for each claim, volume and event, sorted.
func (o *observer) state() []string {
	lines := o.storage.state()
	for _, obj := range o.server.List("persistentvolumeclaims") {
		lines = append(lines, lineOf("claim", obj.DeepCopyObject().(*corev1.PersistentVolumeClaim)))
	}
	for _, obj := range o.server.List("persistentvolumes") {
		v := obj.DeepCopyObject().(*corev1.PersistentVolume)
		if v.Spec.ClaimRef != nil {
			v.Spec.ClaimRef.ResourceVersion = ""
		}
		if v.Status.LastPhaseTransitionTime != nil {
			v.Status.LastPhaseTransitionTime = &metav1.Time{}
		}
		lines = append(lines, lineOf("volume", v))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for text := range o.told {
		lines = append(lines, text)
	}
	names := strings.NewReplacer(o.uids...)
	for i := range lines {
		lines[i] = names.Replace(lines[i])
	}
	slices.Sort(lines)
	return lines
}

func lineOf(what string, obj fake.Object) string {
	obj.SetResourceVersion("")
	obj.SetManagedFields(nil)
	obj.SetCreationTimestamp(metav1.Time{})
	if obj.GetDeletionTimestamp() != nil {
		obj.SetDeletionTimestamp(&metav1.Time{})
		obj.SetFinalizers(append(obj.GetFinalizers(), "(being deleted)"))
	}
	text, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	return what + " " + string(text)
}

// eventText is what an event tells, and about what. Upstream lists pods in the order of a map.
func eventText(e *corev1.Event) string {
	message := e.Message
	if pods, ok := strings.CutPrefix(message, "waiting for pods "); ok {
		names := strings.Split(strings.TrimSuffix(pods, " to be scheduled"), ",")
		slices.Sort(names)
		message = "waiting for pods " + strings.Join(names, ",") + " to be scheduled"
	}
	return fmt.Sprintf("event about %s %s: %s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.UID, e.Type, e.Reason, message)
}
