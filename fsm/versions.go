package fsm

// Version is the log version of this binary: the newest kinds, fields and rules it
// knows. What needs version N is proposed once every member has announced N
// ([View.ClusterVersion], [View.Admits]). A peer announces the version in force until
// an operator finalizes the upgrade, although it knows more: until then a binary that
// knows no more reads all that is written (docs/upgrade.md#going-back).
const Version = 3

// Novelty is something that a log version brought.
type Novelty struct {
	Version int
	Text    string // for operators
	Verbs   []string
}

// novelties is the one place that says what waits for a log version. A test asks for
// each verb that came after version 2.
var novelties = []Novelty{
	{2, "rules, import from ironic-inspector, relays to Ironic, failover of kube nodes, recorded removals", nil},
	{3, "the record of an implausible list of Ironic's nodes: no node is deleted for such a list",
		[]string{"suspect sync", "confirm sync", "trust sync"}},
	{3, "the place of a ramdisk's logs, in X-Trivet-Ramdisk-Logs", []string{"note ramdisk logs"}},
	{3, "what Ironic inspects boots no more once Ironic was away for 15 minutes", []string{"keep inspected"}},
	{3, "a document by which Ironic may enrol a machine is in the log before Ironic is asked",
		[]string{"introduce relay"}},
	{3, "the document of the introspection before the last one, and what changed since",
		[]string{"judge machines", "forget verdicts"}},
	{3, "expectations of machines", []string{"put expectation", "delete expectation"}},
	{3, "how machines boot, after a change of leader", []string{"note boots"}},
	{3, "a port that reaches Ironic after the start of its node's introspection lets its machine in", nil},
	{3, "a port that Ironic gives to another node during an introspection lets its machine in no more", nil},
	{3, "the delivery of events to receivers", []string{"note deliveries"}},
	{3, "the same document for another inspection of Ironic's: a repeat is asked of Ironic at once", nil},
	{3, "a kube node that was well again after an operator's cancel, and their word that it may be fenced again", nil},
	{3, "a request of a peer for a session that arrives late ends no session that is in use", nil},
	{3, "what Ironic did not take of a node's documents makes room first, and what it took last stays", nil},
	{3, "half of the room, not an eighth, for the documents of known nodes that call from one network", nil},
	{3, "the share of the queue that callbacks of one node may have, and a second reapply is refused", nil},
	{3, "the share of one source in what discovery keeps of machines, and how much that is in all", nil},
	{3, "an introspection that is over by the wall clock ends when a leadership begins after a time without one", nil},
	{3, "a pause of failover that would end before the one in force is refused", nil},
}

// HeldBack returns what log versions after one brought, as far as this binary knows.
func HeldBack(version int) (texts []string) {
	for _, n := range novelties {
		if n.Version > version {
			texts = append(texts, n.Text)
		}
	}
	return texts
}
