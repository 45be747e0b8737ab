"""One HTML file that holds a whole report and asks the network for nothing."""
