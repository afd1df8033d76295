package addiff

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
)

// state is what there was after a step; nil where that is not looked at.
type state []string

// life is what became of a history.
type life struct {
	states []state // after each step
	chatty bool    // so much was told about something that upstream's recorder may have dropped what came then
	facts  *observer
	faults *faults
}

func newUser(server *fake.Server, client kubernetes.Interface, seen *observer, faults *faults, now func() time.Time) *user {
	return &user{
		server: server, client: client, seen: seen, faults: faults, now: now, forces: true, kubelets: map[string]string{}, beaten: map[string]time.Time{},
		attacher: attacher{outcome: map[string]string{}, since: map[types.UID]map[bool]time.Time{}},
	}
}

// live lives through a history, in a world whose controller is started by start and whose time passes by pass. It ends
// where the states are not as wanted, unless want is nil.
func (u *user) live(h history, start func(*user), pass func(time.Duration) error, want []state) life {
	l := life{facts: u.seen, faults: u.faults}
	if err := u.furnish(); err != nil {
		panic(err)
	}
	start(u)
	if err := pass(tickPeriod); err != nil {
		panic(err)
	}
	for i, s := range h {
		l.states = append(l.states, u.step(s, pass))
		l.chatty = u.seen.chatty()
		if want != nil && (l.chatty || !slices.Equal(l.states[i], want[i])) {
			break
		}
	}
	return l
}

func (u *user) step(s step, pass func(time.Duration) error) state {
	u.faults.arm(s.fault)
	defer u.faults.arm(fault{})
	if err := s.act.do(u); err != nil {
		return state{fmt.Sprintf("the act was refused: %v", err)}
	}
	for passed := time.Duration(0); passed < time.Duration(s.pause); passed += tickPeriod {
		if passed >= outage {
			u.faults.arm(fault{})
		}
		if err := pass(tickPeriod); err != nil {
			return state{fmt.Sprintf("does not go on: %v", err)}
		}
		if err := u.tick(); err != nil {
			return state{fmt.Sprintf("the world's others fail: %v", err)}
		}
	}
	if s.pause == short {
		return nil
	}
	if err := pass(0); err != nil {
		return state{fmt.Sprintf("does not go on: %v", err)}
	}
	return u.seen.state()
}
