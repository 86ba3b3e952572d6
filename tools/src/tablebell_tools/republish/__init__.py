"""Publishing events again: from L0, or out of the queue of dead messages."""
