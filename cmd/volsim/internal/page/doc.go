// Package page is a page in a browser from which a world can be looked at, and one that is moved by hand be moved.
//
// A [World] says how things are and tells when that has changed: [Live] is a cluster that moves by itself, [Stepped] a world
// that moves when somebody says so. [Listen] serves the page of one, by HTTP on loopback, to whoever has opened a link
// with a token that can be used once.
//
// A browser asks for:
//
//	GET /             the page; /page.css and /page.js are all there is to it
//	GET /changes      server-sent events: the number of the world's state, now and whenever it changes
//	GET /state        how things are: a State as JSON, with its number
//	GET /diagram.svg  what happened last, as a space-time diagram: ?records=150 of them, ?about=OBJECT, ?strands=true
//	GET /operations.txt  what was done, as "volsim session" takes it
//	POST /do          one operation of package session, as text; a Done as JSON comes back
//	POST /back        one operation less; a Done
//	POST /again       none of the operations; a Done
//
// What cannot be done is answered with 422 and a text that says what is wrong; the last three are so where the world is live. Numbers
// of states only grow; a browser that was away asks for the state when it hears of a number that it does not know. So
// however fast a world moves, a browser asks as often as it can draw, and never draws what is not so any more.
//
// Not here: who may look but not touch (the link is for one person at this machine), and pace. What "Run" does is in the
// browser: it steps, looks, and steps again, so that closing the page stops it.
package page
