// Package page serves a web page that shows a world, and controls a stepped one.
//
//	p, err := page.Listen(page.Config{World: page.NewLive(c)})
//	fmt.Println("open", p.URL())
//	defer p.Close()
//
// A [World] returns its state and signals changes. [Live] is a cluster that runs by itself: its
// operations are events, such as "stop kubelet(node-1)", and acts of users.
// [Stepped] is a world that advances only by operations. [Listen] serves the page over HTTP on a
// loopback address, to browsers that open a link with a one-time token. Requests of other web pages are refused,
// by their Origin and by the Host.
//
// The endpoints are:
//
//	GET /                the page, with /page.css and /page.js
//	GET /changes         server-sent events: the version of the state, now and after each change
//	GET /state           the State as JSON, with its version
//	GET /diagram.svg     recent actions as a space-time diagram: ?records=150, ?about=OBJECT, ?tasks=true
//	GET /operations.txt  the operations that lead to the current state, as input for "volsim session"
//	POST /do             executes one operation of package session, given as text; returns a Result
//	POST /undo           undoes the last operation; returns a Result
//	POST /reset          undoes all operations; returns a Result
//	POST /load           replaces the world by a saved session or scenario, given as text; returns a Result
//
// Invalid requests return 422 and a message. A live world returns 422 for operations.txt, and for POST
// requests other than /do. Versions only grow. A browser requests the state when it receives an unknown
// version, so it fetches the state as often as it can draw and never shows an outdated one.
//
// A diagram with ?width=400 fits a window of so many pixels.
//
// The package has no read-only access: a link is for one person on this machine. It does not pace
// steps either. The page's Run button sends one step after another, so closing the page stops the
// run.
package page
