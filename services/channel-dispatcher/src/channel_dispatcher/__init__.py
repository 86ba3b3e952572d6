"""Sends the rows of L2 by e-mail, SMS, push and Slack."""
