package session_test

import (
	"fmt"

	"github.com/volsim/volsim/explore/session"
)

func Example() {
	s := session.New(
		"components: pvcontroller",
		"create volume disk 1Gi",
		"create claim data 1Gi class=",
		"rest",
	).MustPlay()
	defer s.Close()
	fmt.Print(s.Story())
	// Output:
	// > components: pvcontroller
	// > create volume disk 1Gi
	//       user creates volume disk of 1Gi
	// > create claim data 1Gi class=
	//       user creates claim default/data of 1Gi
	// > rest
	//       … (3 minor actions)
	//    4  pvcontroller/volumes marks volume disk Available
	//       … (2 minor actions)
	//    7  pvcontroller/claims reserves volume disk for claim default/data
	//       …
	//    9  pvcontroller/claims marks volume disk Bound
	//       …
	//   11  pvcontroller/claims binds claim default/data to volume disk
	//       …
	//   13  pvcontroller/claims marks claim default/data Bound
	//       … (6 minor actions)
	//       (nothing left to do)
}

func ExampleSession_StateTable() {
	s := session.New(
		"components: pvcontroller",
		"create volume disk 1Gi",
		"hold pvcontroller/cache persistentvolumes",
		"create claim data 1Gi class=",
		"rest",
	).MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
	// Output:
	// claim default/data          Pending, 1Gi requested  (rv 8)
	// volume disk                 Pending, 1Gi            (rv 7)
	//    cached by pvcontroller:  none
}
